import { createHmac } from 'node:crypto';
import { sameSecret } from '../secrets.ts';

/** The header in which scripts send the token. Forms send it as `authenticity_token`. */
export const CSRF_HEADER = 'x-csrf-token';

/**
 * Returns the token that an intended request carries in addition to the cookie, which the browser adds by itself. Only
 * pages served to the holder of that cookie contain the token. It is derived from the cookie, so nothing is stored.
 */
export const csrfToken = (secretKey: Buffer, cookie: string): string =>
  createHmac('sha256', secretKey).update('csrf\0').update(cookie).digest('base64url');

/** Returns true if `sent` is the token for the cookie. */
export const isCsrfToken = (secretKey: Buffer, cookie: string, sent: unknown): boolean =>
  typeof sent === 'string' && sent.length <= 100 && sameSecret(sent, csrfToken(secretKey, cookie));
