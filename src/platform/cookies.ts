import type { IncomingHttpHeaders } from 'node:http';

/**
 * The name of the cookie of signed-in people. Where the hub is reached by TLS the browser itself holds it to that host,
 * to `Path=/` and to `Secure`.
 */
export const sessionCookieName = ({ base }: { readonly base: string }): string =>
  base.startsWith('https:') ? '__Host-millrace_session' : 'millrace_session';

/** The value of a cookie; null when it was not sent, or more than once: one of them was set by somebody else. */
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
