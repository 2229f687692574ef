import { createHmac } from 'node:crypto';
import { sameSecret } from './secrets.ts';

/** The header in which scripts send it; forms send it as `authenticity_token`. */
export const CSRF_HEADER = 'x-csrf-token';

/**
 * What a request made on purpose carries beside a cookie that the browser adds by itself: a value that only pages served
 * to the holder of that cookie know. It is made of the cookie's value, so nothing has to be stored.
 */
export const csrfToken = (secretKey: Buffer, cookie: string): string =>
  createHmac('sha256', secretKey).update('csrf\0').update(cookie).digest('base64url');

/** Whether `sent` is the token that belongs to the cookie. */
export const isCsrfToken = (secretKey: Buffer, cookie: string, sent: unknown): boolean =>
  typeof sent === 'string' && sent.length <= 100 && sameSecret(sent, csrfToken(secretKey, cookie));
