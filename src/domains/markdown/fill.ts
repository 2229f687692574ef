import {
  escaped,
  type Home,
  isReference,
  type Reference,
  type Referent,
  type RelativeUrl,
  type Template,
} from './model.ts';

/** The content of a text's slots for one reader. */
export interface Filling {
  /** Null if the reader cannot see what the text refers to. */
  readonly referentOf: (reference: Reference) => Referent | null;
  /** The URL of the project or group of the text, for relative URLs. Null if there is none. */
  readonly homeUrl: string | null;
  readonly home: Home | null;
  readonly base: string;
}

/** Returns the HTML of a template for one reader. */
export const fill = ({ html, slots }: Template, filling: Filling): string => {
  if (slots.length === 0) return html[0] ?? '';
  const parts: string[] = [html[0] ?? ''];
  for (const [index, slot] of slots.entries()) {
    const filled = isReference(slot) ? link(slot, filling) : escaped(absoluteUrl(slot, filling));
    parts.push(filled, html[index + 1] ?? '');
  }
  return parts.join('');
};

/**
 * Files attached to a text have an address of their own. Other relative URLs are files of the default branch of the
 * project, or paths of the hub if the text belongs to no project. A URL that leaves the root is
 * replaced by the root.
 */
const absoluteUrl = ({ kind, path, embedded }: RelativeUrl, { home, homeUrl, base }: Filling): string => {
  if (kind === 'upload') return home ? `${base}/-/${home.kind}/${home.id}${path}` : base + path;
  const isFile = home?.kind === 'project' && homeUrl !== null;
  const root = new URL(isFile ? `${homeUrl}/-/${embedded ? 'raw' : 'blob'}/HEAD/` : `${base}/`).href;
  const url = URL.parse(path, root)?.href;
  return url?.startsWith(root) ? url : root;
};

const link = (reference: Reference, { referentOf }: Filling): string => {
  const { kind, source, url } = reference;
  const referent = referentOf(reference);
  if (!referent) return url === undefined ? escaped(source) : `<a href="${escaped(url)}">${escaped(source)}</a>`;
  const { href, text, title, className, data, colors } = referent;
  const attributes = [
    ['href', href],
    ['title', title],
    ['class', `gfm ${className}`],
    ['data-reference-type', kind],
    ['data-original', source],
    ...Object.entries(data).map(([name, value]) => [`data-${name}`, String(value)] as const),
  ] as const;
  const anchor = `<a ${attributes.map(([name, value]) => `${name}="${escaped(value)}"`).join(' ')}>`;
  if (!colors) return `${anchor}${escaped(text)}</a>`;
  const style = `background-color: ${colors.background}; color: ${colors.text}`;
  return `<span class="gl-label">${anchor}<span class="gl-label-text" style="${escaped(style)}">${escaped(text)}</span></a></span>`;
};
