import type { IncomingHttpHeaders } from 'node:http';

/**
 * Returns the name of the session cookie. If the hub is served over TLS, the `__Host-` prefix makes the browser enforce
 * that host, `Path=/` and `Secure`.
 */
export const sessionCookieName = ({ base }: { readonly base: string }): string =>
  base.startsWith('https:') ? '__Host-millrace_session' : 'millrace_session';

/**
 * Returns the value of a cookie. Returns null if it was not sent, or sent more than once, because then another site may
 * have set one of them.
 */
export const readCookie = ({ cookie }: Pick<IncomingHttpHeaders, 'cookie'>, name: string): string | null => {
  if (cookie === undefined) return null;
  let found: string | null = null;
  for (const part of cookie.split(';')) {
    const equals = part.indexOf('=');
    if (equals < 0 || part.slice(0, equals).trim() !== name) continue;
    if (found !== null) return null;
    found = part.slice(equals + 1).trim();
  }
  return found === '' ? null : found;
};
