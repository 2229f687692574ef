import { createHash } from 'node:crypto';
import { sameSecret } from '#platform/secrets.ts';

/** 43 to 128 characters of `A-Z a-z 0-9 - . _ ~` (RFC 7636 §4.1). */
const VERIFIER = /^[A-Za-z0-9\-._~]{43,128}$/;
/** A SHA-256 digest in URL-safe base64 without padding. */
const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

export const isCodeChallenge = (text: string): boolean => CHALLENGE.test(text);

/** Whether the verifier is well formed and matches the challenge. */
export const verifies = (verifier: string, challenge: string): boolean =>
  VERIFIER.test(verifier) && sameSecret(createHash('sha256').update(verifier).digest('base64url'), challenge);
