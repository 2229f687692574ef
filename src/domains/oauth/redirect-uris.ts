import { tooLong } from '#platform/errors.ts';

const MAX_LENGTH = 2_000;

/** Schemes that execute or display the content of the URI, or that lead to no application. */
const REFUSED_SCHEMES: ReadonlySet<string> = new Set([
  'about:',
  'blob:',
  'chrome:',
  'data:',
  'file:',
  'filesystem:',
  'ftp:',
  'intent:',
  'javascript:',
  'mailto:',
  'resource:',
  'urn:',
  'vbscript:',
  'view-source:',
  'ws:',
  'wss:',
]);

const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?((?:[/?].*)?)$/;

/**
 * Returns the problem with a redirect URI that is to be registered, as the rest of a sentence, or null. The URI must be
 * absolute, without fragment, user or wildcard. Plain http is allowed for loopback, and elsewhere only with
 * `plainHttp`. Native applications can use their own scheme (RFC 8252 §7.1), except for those that execute their
 * content.
 */
export const redirectUriProblem = (uri: string, { plainHttp }: { readonly plainHttp: boolean }): string | null => {
  if (uri.length > MAX_LENGTH) return tooLong(MAX_LENGTH);
  if (!/^[a-z][a-z0-9+.-]*:[!-~]+$/i.test(uri) || /["'<>\\^`{|}]/.test(uri)) return 'must be an absolute URI';
  if (uri.includes('#')) return 'cannot contain a fragment';
  if (uri.includes('*')) return 'cannot contain a wildcard';
  const url = URL.parse(uri);
  if (!url) return 'must be an absolute URI';
  if (REFUSED_SCHEMES.has(url.protocol)) return 'has a forbidden scheme';
  if (url.protocol === 'https:' || url.protocol === 'http:') {
    // A browser would read a user before the @, or a host that is not written out.
    if (url.username !== '' || url.password !== '' || !uri.startsWith(`${url.protocol}//${url.host}`)) {
      return /^https?:\/\/[^/?]*@/i.test(uri) ? 'cannot contain a user' : 'must be an absolute URI';
    }
    if (url.protocol === 'http:' && !plainHttp && !LOOPBACK.test(uri)) return 'must be an HTTPS/SSL URI';
    return null;
  }
  return url.username !== '' || url.password !== '' ? 'cannot contain a user' : null;
};

/**
 * Whether the requested URI is registered. It must match exactly, except that a loopback address may have any port (RFC
 * 8252 §7.3), because native applications get theirs at start.
 */
export const isRegistered = (registered: readonly string[], sent: string): boolean =>
  registered.includes(sent) || registered.some((each) => isSameButPort(each, sent));

const isSameButPort = (registered: string, sent: string): boolean => {
  const [, origin, , rest] = LOOPBACK.exec(registered) ?? [];
  const [, sentOrigin, port, sentRest] = LOOPBACK.exec(sent) ?? [];
  return origin !== undefined && origin === sentOrigin && rest === sentRest && Number(port ?? 0) <= 65_535;
};

/** Returns the URI with the parameters added. The existing part stays byte for byte the same. */
export const withParameters = (uri: string, parameters: Readonly<Record<string, string | null>>): string => {
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== null) added.set(name, value);
  return `${uri}${uri.includes('?') ? '&' : '?'}${added}`;
};
