import type { Container, ContainerKind } from '#domains/planning/container.ts';

export const containerId = (container: Container): number =>
  container.kind === 'group' ? container.group.id : container.project.id;

/** Returns the storage folder for all files of a group or project. */
export const uploadFolder = (kind: ContainerKind, id: number): string => `uploads/${kind}/${id}/`;

/** Image types that browsers display. SVG is not included, because it can contain scripts. */
const PICTURES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};

/** Files that Markdown embeds instead of linking. */
const MEDIA = /\.(png|jpe?g|gif|webp|bmp|tiff|ico|svg|mp4|m4v|mov|webm|ogv|mp3|oga|ogg|spx|wav)$/i;

/** Text files are always served as plain text, regardless of their content. */
const TEXTS =
  /\.(txt|text|md|markdown|log|csv|tsv|json|ya?ml|toml|ini|conf|xml|svg|html?|xhtml|css|m?js|ts|diff|patch|sh|rst|adoc)$/i;

/** Returns the media type to serve a file of this name with. The content is not examined. */
export const contentTypeOf = (filename: string): string => {
  const picture = pictureTypeOf(filename);
  if (picture !== null) return picture;
  return TEXTS.test(filename) ? 'text/plain; charset=utf-8' : 'application/octet-stream';
};

/** Returns the media type of an image that browsers display, by file name; null for anything else. */
export const pictureTypeOf = (filename: string): string | null =>
  PICTURES[filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()] ?? null;

const MAX_NAME_BYTES = 200;

/**
 * Returns the file name for URLs and Markdown. Keeps only letters, digits, `_`, `.`, `+` and `-` of the client's name.
 */
export const safeName = (sent: string): string => {
  const name = sent
    .toWellFormed()
    .normalize('NFC')
    .replace(/[^\p{L}\p{M}\p{N}_.+-]/gu, '_');
  const dot = name.lastIndexOf('.');
  const ending = dot > 0 ? name.slice(dot).slice(0, 20) : '';
  const stem = dot > 0 ? name.slice(0, dot) : name;
  const kept = cut(stem, MAX_NAME_BYTES - Buffer.byteLength(cut(ending, 80))) + cut(ending, 80);
  if (kept === '') return 'file';
  return /^\.+$/.test(kept) ? `_${kept}` : kept;
};

const cut = (text: string, bytes: number): string => {
  let size = 0;
  let end = 0;
  for (const character of text) {
    size += Buffer.byteLength(character);
    if (size > bytes) break;
    end += character.length;
  }
  return text.slice(0, end);
};

export interface Address {
  readonly secret: string;
  readonly filename: string;
}

/** Returns the URL within descriptions and comments of the group or project: `/uploads/<secret>/<file>`. */
export const uploadUrl = ({ secret, filename }: Address): string =>
  `/uploads/${secret}/${encodeURIComponent(filename)}`;

/** Returns the URL path from anywhere on the hub. */
export const uploadPath = (container: Container, address: Address): string =>
  `/-/${container.kind}/${containerId(container)}${uploadUrl(address)}`;

/** Returns the alternative text of a file: its name, without the extension for media. */
export const altText = (filename: string): string =>
  MEDIA.test(filename) ? filename.slice(0, filename.lastIndexOf('.')) : filename;

export const markdownOf = (address: Address): string =>
  `${MEDIA.test(address.filename) ? '!' : ''}[${altText(address.filename)}](${uploadUrl(address)})`;
