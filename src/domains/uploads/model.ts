import type { Place, PlaceKind } from '#domains/planning/place.ts';

export const placeId = (place: Place): number => (place.kind === 'group' ? place.group.id : place.project.id);

/** Where all files of a group or project lie in storage. */
export const uploadFolder = (kind: PlaceKind, id: number): string => `uploads/${kind}/${id}/`;

/** What browsers show as a picture. SVG is not among them: it can hold scripts. */
const PICTURES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};

/** Of these Markdown shows the content. */
const MEDIA = /\.(png|jpe?g|gif|webp|bmp|tiff|ico|svg|mp4|m4v|mov|webm|ogv|mp3|oga|ogg|spx|wav)$/i;

/** What is text to people is never more than text to browsers, whatever it holds. */
const TEXTS =
  /\.(txt|text|md|markdown|log|csv|tsv|json|ya?ml|toml|ini|conf|xml|svg|html?|xhtml|css|m?js|ts|diff|patch|sh|rst|adoc)$/i;

/** The media type that a file of this name is sent with; what it holds is not asked. */
export const contentTypeOf = (filename: string): string => {
  const picture = pictureTypeOf(filename);
  if (picture !== null) return picture;
  return TEXTS.test(filename) ? 'text/plain; charset=utf-8' : 'application/octet-stream';
};

/** The media type of a picture that browsers show, by the file's name, or null for anything else. */
export const pictureTypeOf = (filename: string): string | null =>
  PICTURES[filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()] ?? null;

const MAX_NAME_BYTES = 200;

/** The name as it stands in addresses and Markdown: letters, digits, `_`, `.`, `+` and `-` of what the client called it. */
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

/** As it stands in descriptions and comments of the group or project: `/uploads/<secret>/<file>`. */
export const uploadUrl = ({ secret, filename }: Address): string =>
  `/uploads/${secret}/${encodeURIComponent(filename)}`;

/** The same from anywhere on the hub. */
export const uploadPath = (place: Place, address: Address): string =>
  `/-/${place.kind}/${placeId(place)}${uploadUrl(address)}`;

/** What the file is called where it cannot be shown: of media without the ending. */
export const altText = (filename: string): string =>
  MEDIA.test(filename) ? filename.slice(0, filename.lastIndexOf('.')) : filename;

export const markdownOf = (address: Address): string =>
  `${MEDIA.test(address.filename) ? '!' : ''}[${altText(address.filename)}](${uploadUrl(address)})`;
