const MAX_LENGTH = 2_000;

/** Schemes that run or show what stands in the URI, or that lead to no application. */
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
 * What is wrong with a redirect URI that somebody wants to register, as the rest of a sentence, or null: absolute, no
 * fragment, no user, no wildcard; plain http for loopback, and elsewhere only where `plainHttp` allows it; a scheme of
 * its own for a native application (RFC 8252 §7.1), but none that runs what it carries.
 */
export const redirectUriProblem = (uri: string, { plainHttp }: { readonly plainHttp: boolean }): string | null => {
  if (uri.length > MAX_LENGTH) return `is too long (maximum is ${MAX_LENGTH} characters)`;
  if (!/^[a-z][a-z0-9+.-]*:[!-~]+$/i.test(uri) || /["'<>\\^`{|}]/.test(uri)) return 'must be an absolute URI';
  if (uri.includes('#')) return 'cannot contain a fragment';
  if (uri.includes('*')) return 'cannot contain a wildcard';
  const url = URL.parse(uri);
  if (!url) return 'must be an absolute URI';
  if (REFUSED_SCHEMES.has(url.protocol)) return 'has a forbidden scheme';
  if (url.protocol === 'https:' || url.protocol === 'http:') {
    // As a browser reads it there would be a user before the @, or a host where none is written.
    if (url.username !== '' || url.password !== '' || !uri.startsWith(`${url.protocol}//${url.host}`)) {
      return /^https?:\/\/[^/?]*@/i.test(uri) ? 'cannot contain a user' : 'must be an absolute URI';
    }
    if (url.protocol === 'http:' && !plainHttp && !LOOPBACK.test(uri)) return 'must be an HTTPS/SSL URI';
    return null;
  }
  return url.username !== '' || url.password !== '' ? 'cannot contain a user' : null;
};

/**
 * Whether the URI of a request is one of those registered: the same characters, except that an address of the machine
 * itself may have any port (RFC 8252 §7.3), as native applications are given theirs when they start.
 */
export const isRegistered = (registered: readonly string[], sent: string): boolean =>
  registered.includes(sent) || registered.some((each) => isSameButPort(each, sent));

const isSameButPort = (registered: string, sent: string): boolean => {
  const [, origin, , rest] = LOOPBACK.exec(registered) ?? [];
  const [, sentOrigin, port, sentRest] = LOOPBACK.exec(sent) ?? [];
  return origin !== undefined && origin === sentOrigin && rest === sentRest && Number(port ?? 0) <= 65_535;
};

/** The URI with parameters added; whatever it has stays as it is, to the letter. */
export const withParameters = (uri: string, parameters: Readonly<Record<string, string | null>>): string => {
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== null) added.set(name, value);
  return `${uri}${uri.includes('?') ? '&' : '?'}${added}`;
};
