/** The project or group that a text belongs to. Short references such as `#1` and relative links start from it. */
export interface Home {
  readonly kind: 'project' | 'group';
  readonly id: number;
}

/** A text that people wrote in Markdown. */
export interface Prose {
  readonly text: string | null;
  /** Null for texts of the whole instance. They can refer to other things by full path only. */
  readonly home: Home | null;
  /** For titles: one line without blocks, images and HTML. */
  readonly inline?: boolean;
}

interface EncodedJson {
  /** As written, for readers who do not get a link. */
  readonly source: string;
  /** Set if it was written as a URL of this hub. */
  readonly url?: string | undefined;
}

interface InProject<K extends string> extends EncodedJson {
  readonly kind: K;
  /** The path of the project; null for the project of the text. */
  readonly project: string | null;
}

interface Numbered<K extends string> extends InProject<K> {
  readonly iid: number;
  /** The id of the comment that a URL points to. */
  readonly note?: number | undefined;
}

interface Named<K extends string> extends InProject<K> {
  readonly name: string;
}

/** A reference in a text. It becomes a link for readers who can see what it names, and stays text for others. */
export type Reference =
  | Numbered<'issue'>
  | Numbered<'merge_request'>
  | Named<'label'>
  | Named<'milestone'>
  | (InProject<'commit'> & { readonly sha: string })
  | (EncodedJson & { readonly kind: 'user'; readonly name: string });

/** A relative URL, the value of an attribute. Its target depends on the project or group of the text. */
export interface RelativeUrl {
  readonly kind: 'upload' | 'file';
  readonly path: string;
  /** The content is shown in place, as an image. */
  readonly embedded: boolean;
}

export type Slot = Reference | RelativeUrl;

export const isReference = (slot: Slot): slot is Reference => slot.kind !== 'upload' && slot.kind !== 'file';

/**
 * A rendered text, the same for all readers. `html` has one piece more than there are slots; a slot is filled between
 * each two pieces, for each reader (fill.ts).
 */
export interface Template {
  readonly html: readonly string[];
  readonly slots: readonly Slot[];
}

/** The target of a reference. All of it is shown to the reader. */
export interface Referent {
  readonly href: string;
  readonly text: string;
  readonly title: string;
  /** The class that frontends know, such as `gfm-issue`. */
  readonly className: string;
  /** The values of `data-` attributes, such as `project` for `data-project`. */
  readonly data: Readonly<Record<string, string | number>>;
  /** Colours of a label, such as `#d9534f`. */
  readonly colors?: { readonly background: string; readonly text: string };
}

/** How images of other hosts are requested (settings `asset_proxy_*`). */
export interface AssetProxy {
  readonly url: string;
  readonly secret: string;
  /** Host names that are requested directly. `*` matches any characters. */
  readonly allowlist: readonly string[];
}

export interface RenderOptions {
  /** The URL of the hub, without a trailing slash. */
  readonly base: string;
  readonly assetProxy: AssetProxy | null;
}

/** Longer texts are shown as they were written. */
export const MAX_RENDERED = 128 * 1024;

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes a text for HTML, also for attributes. */
export const escaped = (text: string): string => text.replace(/[&<>"']/g, (each) => ESCAPES[each] ?? each);

/** Returns a text that is not rendered: escaped, in paragraphs unless it is `inline`. */
const plainHtml = (text: string, inline: boolean): string => {
  if (inline) return escaped(text);
  return text
    .trim()
    .split(/\r?\n(?:[ \t]*\r?\n)+/)
    .map((paragraph) => `<p dir="auto">${escaped(paragraph).replace(/\r?\n/g, '<br>')}</p>`)
    .join('\n');
};

/** The same as a template. */
export const plainTemplate = (text: string, inline: boolean): Template => ({
  html: [plainHtml(text, inline)],
  slots: [],
});
