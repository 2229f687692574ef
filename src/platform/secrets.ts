import { createCipheriv, createDecipheriv, createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** A URL-safe random string; 27 characters carry 162 bits. */
export const randomToken = (length = 27): string => {
  let token = '';
  for (const byte of randomBytes(length)) token += ALPHABET[byte & 63];
  return token;
};

/** How a token is stored: only its SHA-256 digest. Tokens are random, so no salt or slow hash is needed. */
export const digestToken = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Compares two secrets without telling by its duration where they differ. */
export const sameSecret = (left: string, right: string): boolean =>
  timingSafeEqual(digestToken(left), digestToken(right));

/**
 * Encrypts what has to be read back (hook secrets, upload URLs) with AES-256-GCM under the instance key. Where somebody
 * else keeps it, `purpose` binds it to its place: sealed for one it opens for no other.
 */
export const encrypt = (key: Buffer, plaintext: string, purpose = ''): Buffer => {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  cipher.setAAD(Buffer.from(purpose));
  const body = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), body]);
};

/** Undoes `encrypt`; throws when the key, the purpose or the bytes are not the ones it was made with. */
export const decrypt = (key: Buffer, sealed: Buffer, purpose = ''): string => {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(purpose));
  decipher.setAuthTag(sealed.subarray(12, 28));
  return Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()]).toString('utf8');
};
