import { createHash } from 'node:crypto';
import type { NormalizedUser } from '../event.ts';

/** Hashes are positive numbers of so many bits. */
export const HASH_BITS = 63;

/**
 * Returns the hash by which an affected user is counted, or null if the event names none. The first of id, user name,
 * address of mail and IP address counts (reference: error-tracking §8).
 */
export const userHash = (projectId: number, user: NormalizedUser | null): bigint | null => {
  if (!user) return null;
  for (const kind of ['id', 'username', 'email', 'ip_address'] as const) {
    const value = user[kind];
    if (value === null || value === '') continue;
    const digest = createHash('sha256').update(`${projectId}\0${kind}\0${value}`).digest();
    return BigInt.asUintN(HASH_BITS, digest.readBigUInt64BE());
  }
  return null;
};

/** Returns true if an error that keeps only hashes with `sampling` leading zero bits keeps this one. */
export const isSampled = (hash: bigint, sampling: number): boolean => hash >> BigInt(HASH_BITS - sampling) === 0n;
