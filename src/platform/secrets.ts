import { createCipheriv, createDecipheriv, createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { unprocessable } from './errors.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** Returns a URL-safe random string. 27 characters carry 162 bits. */
export const randomToken = (length = 27): string => {
  let token = '';
  for (const byte of randomBytes(length)) token += ALPHABET[byte & 63];
  return token;
};

/**
 * Returns the SHA-256 digest, the only stored form of a token. Tokens are random, so no salt or slow hash is needed.
 */
export const digestToken = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Compares two secrets in constant time. */
export const sameSecret = (left: string, right: string): boolean =>
  timingSafeEqual(digestToken(left), digestToken(right));

/**
 * Encrypts values that must be read back (hook secrets, upload URLs) with AES-256-GCM under the instance key. If others
 * store the result, `purpose` binds it to its use: it cannot be decrypted for another purpose.
 */
export const encrypt = (key: Buffer, plaintext: string, purpose = ''): Buffer => {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  cipher.setAAD(Buffer.from(purpose));
  const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), body]);
};

/** What a caller reads about a value that cannot be decrypted. */
const SECRET_LOST =
  'A stored secret cannot be read, because it was encrypted with a secret key that was replaced. Set it again.';

/**
 * Decrypts the output of `encrypt`.
 *
 * @throws DomainError `unprocessable` if the key, the purpose or the bytes differ
 */
export const decrypt = (key: Buffer, sealed: Buffer, purpose = ''): string => {
  const value = decryptOrNull(key, sealed, purpose);
  if (value === null) throw unprocessable(SECRET_LOST);
  return value;
};

/** The same for what is only shown, or can do without: returns null if the value cannot be decrypted. */
export const decryptOrNull = (key: Buffer, sealed: Buffer, purpose = ''): string | null => {
  try {
    return open(key, sealed, purpose);
  } catch {
    return null;
  }
};

const open = (key: Buffer, sealed: Buffer, purpose: string): string => {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(purpose));
  decipher.setAuthTag(sealed.subarray(12, 28));
  return Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()]).toString('utf8');
};
