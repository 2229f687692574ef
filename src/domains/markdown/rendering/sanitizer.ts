import { createHmac } from 'node:crypto';
import sanitizeHtml, { type Attributes, type IOptions, type Tag } from 'sanitize-html';
import type { AssetProxy, RenderOptions, Slot } from '../model.ts';
import { limitDepth } from './budget.ts';
import { MARK } from './env.ts';

/**
 * Elements without effect outside their box. All others are dropped, and the text of most of them stays. The library
 * searches this list for each tag, so the most frequent ones come first.
 */
const TAGS = [
  ...['p', 'a', 'code', 'li', 'strong', 'em', 'td', 'tr', 'ul', 'pre', 'h2', 'h3', 'br', 'img', 'span', 'input', 'th'],
  ...['h1', 'h4', 'h5', 'h6', 'hr', 'div', 'blockquote', 'ol', 'dl', 'dt', 'dd', 'figure', 'figcaption', 'details'],
  ...['summary', 'b', 'i', 'u', 's', 'del', 'ins', 'sub', 'sup', 'small', 'mark', 'q', 'cite', 'abbr', 'dfn', 'kbd'],
  ...['samp', 'var', 'tt', 'time', 'ruby', 'rt', 'rp'],
  ...['table', 'caption', 'colgroup', 'col', 'thead', 'tbody', 'tfoot'],
];

const CELL = ['align', 'colspan', 'rowspan', 'scope'];

const POLICY: IOptions = {
  allowedTags: TAGS,
  allowedAttributes: {
    '*': ['id', 'title', 'dir', 'lang', 'align'],
    a: ['href', 'rel', 'target', 'aria-hidden'],
    img: ['src', 'alt', 'width', 'height'],
    input: ['type', 'checked', 'disabled'],
    ol: ['start', 'reversed', 'type'],
    li: ['value'],
    details: ['open'],
    pre: ['data-canonical-lang'],
    time: ['datetime'],
    td: CELL,
    th: CELL,
  },
  allowedClasses: {
    a: ['anchor'],
    ul: ['task-list'],
    ol: ['task-list'],
    li: ['task-list-item'],
    input: ['task-list-item-checkbox'],
    pre: ['code', 'highlight'],
  },
  allowedSchemes: ['http', 'https', 'mailto', 'ftp', 'irc', 'ircs', 'tel', 'xmpp'],
  allowedSchemesByTag: { img: ['http', 'https'] },
  allowProtocolRelative: true,
  exclusiveFilter: ({ tag, attribs }) =>
    (tag === 'input' && attribs.type !== 'checkbox') || (tag === 'img' && attribs.src === undefined),
  nestingLimit: 100,
};

/**
 * Removes everything from the HTML that is not on the lists above, and directs its URLs: links out of the hub say so,
 * images of other hosts come from the proxy, relative URLs become slots. Throws `TooComplex` if it is nested too deeply.
 */
export const sanitize = (html: string, slots: Slot[], options: RenderOptions): string =>
  sanitizeHtml(html, {
    ...POLICY,
    ...limitDepth(),
    transformTags: { '*': (tagName, attribs) => directed(tagName, withoutMarks(attribs), slots, options) },
  });

/**
 * A broken tag in raw HTML can make an attribute of the text that follows it, slots included. They are removed: a slot
 * in an attribute would be filled with markup.
 */
const withoutMarks = (attribs: Attributes): Attributes => {
  for (const [name, value] of Object.entries(attribs)) if (value.includes(MARK)) delete attribs[name];
  return attribs;
};

const directed = (tagName: string, attribs: Attributes, slots: Slot[], options: RenderOptions): Tag => {
  if (attribs.id !== undefined) attribs.id = `user-content-${attribs.id.replace(/\s+/g, '-').slice(0, 200)}`;
  if (attribs.align !== undefined && !/^(?:left|right|center|justify)$/i.test(attribs.align)) delete attribs.align;
  if (attribs.dir !== undefined && !/^(?:ltr|rtl|auto)$/i.test(attribs.dir)) delete attribs.dir;
  if (tagName === 'a') return { tagName, attribs: link(attribs, slots, options) };
  if (tagName === 'img') return { tagName, attribs: image(attribs, slots, options) };
  if (tagName !== 'input') return { tagName, attribs };
  const { type, class: className, checked } = attribs;
  if (type?.toLowerCase() !== 'checkbox') return { tagName, attribs: {} };
  const box: Attributes = { type: 'checkbox', disabled: 'disabled' };
  if (className !== undefined) box.class = className;
  if (checked !== undefined) box.checked = 'checked';
  return { tagName, attribs: box };
};

const link = (
  { href, target: _, rel: __, ...attribs }: Attributes,
  slots: Slot[],
  options: RenderOptions,
): Attributes => {
  if (href === undefined) return attribs;
  const url = asBrowsersRead(href);
  if (url.startsWith('#')) return { ...attribs, href: url };
  if (!leavesPage(url)) return { ...attribs, href: relative(url, false, slots, options) };
  if (!URL.canParse(url, options.base)) return attribs;
  if (url === options.base || url.startsWith(`${options.base}/`)) return { ...attribs, href: url };
  return { ...attribs, href: url, rel: 'nofollow noreferrer noopener', target: '_blank' };
};

const image = ({ src, ...attribs }: Attributes, slots: Slot[], options: RenderOptions): Attributes => {
  for (const side of ['width', 'height']) if (!/^\d{1,4}%?$/.test(attribs[side] ?? '')) delete attribs[side];
  if (src === undefined) return attribs;
  const url = asBrowsersRead(src);
  if (!leavesPage(url)) return { ...attribs, src: relative(url, true, slots, options) };
  const target = imageUrl(url, options);
  return target === null ? attribs : { ...attribs, src: target };
};

/** Browsers ignore tabs and line breaks in URLs, and control characters and spaces around them. */
const asBrowsersRead = (url: string): string => {
  const line = url.replace(/[\t\n\r]/g, '');
  let start = 0;
  let end = line.length;
  while (start < end && line.charAt(start) <= ' ') start++;
  while (end > start && line.charAt(end - 1) <= ' ') end--;
  return line.slice(start, end);
};

/** Whether the URL has a scheme or a host. Browsers read `\` like `/`. */
const leavesPage = (url: string): boolean => /^(?:[a-z][a-z0-9+.-]*:|[\\/]{2})/i.test(url);

const UPLOAD = /^\/uploads\/[0-9a-f]{32,64}\/[^/\\?#]+$/;

/** Paths from the root are the hub's own, uploads apart. Others start from the repository of the project. */
const relative = (url: string, embedded: boolean, slots: Slot[], { base }: RenderOptions): string => {
  const isUpload = UPLOAD.test(url);
  if (!isUpload && /^[\\/]/.test(url)) return base + url;
  const index = slots.push({ kind: isUpload ? 'upload' : 'file', path: url, embedded }) - 1;
  return `${MARK}a${index}${MARK}`;
};

/**
 * Returns the URL from which an image with a scheme or a host is requested: its own, or the one at the proxy if there
 * is a proxy and another host has the image. Null if browsers cannot request it.
 */
const imageUrl = (url: string, { base, assetProxy }: RenderOptions): string | null => {
  const target = URL.parse(/^[\\/]{2}/.test(url) ? `https:${url}` : url, base);
  if (!target || !/^https?:$/.test(target.protocol)) return null;
  if (!assetProxy) return url;
  const { host, hostname, href } = target;
  if (host === new URL(base).host || assetProxy.allowlist.some((pattern) => matches(hostname, pattern))) return href;
  return proxied(href, assetProxy);
};

/** Returns the URL at the proxy: `<proxy>/<HMAC-SHA1 of the URL>/<URL as hex>`, as camo and its relatives read it. */
const proxied = (href: string, { url: proxy, secret }: AssetProxy): string => {
  const digest = createHmac('sha1', secret).update(href).digest('hex');
  return `${proxy.replace(/\/+$/, '')}/${digest}/${Buffer.from(href).toString('hex')}`;
};

const matches = (hostname: string, pattern: string): boolean => {
  const [first = '', ...rest] = pattern.toLowerCase().split('*');
  if (rest.length === 0) return hostname === first;
  const last = rest.pop() ?? '';
  let at = first.length;
  if (!hostname.startsWith(first) || !hostname.endsWith(last)) return false;
  for (const part of rest) {
    const next = hostname.indexOf(part, at);
    if (next < 0) return false;
    at = next + part.length;
  }
  return at <= hostname.length - last.length;
};
