import { createHash } from 'node:crypto';
import { Transform } from 'node:stream';
import { isDiskFull } from '#platform/disk-full.ts';
import { DomainError } from '#platform/errors.ts';
import { notePassed } from '#platform/process/collect.ts';
import type { StoredFile } from './storage.ts';

/** Passes bytes through, counts and hashes them, and fails with `too_large` beyond the limit. */
export const createMeter = (maxBytes = Number.POSITIVE_INFINITY): { stream: Transform; result(): StoredFile } => {
  const hash = createHash('sha256');
  let size = 0;
  const stream = new Transform({
    highWaterMark: 256 * 1024,
    transform(chunk: Buffer, _encoding, callback) {
      size += chunk.length;
      if (size > maxBytes) return callback(tooLarge(maxBytes));
      hash.update(chunk);
      notePassed(chunk.length);
      callback(null, chunk);
    },
  });
  return { stream, result: () => ({ size, sha256: hash.digest('hex') }) };
};

const tooLarge = (maxBytes: number) =>
  new DomainError('too_large', `The file is larger than the limit of ${maxBytes} bytes`);

/** Converts a full disk to a domain error. Returns other errors unchanged. */
export const toStorageError = (error: unknown): unknown => {
  if (isDiskFull(error)) {
    return withCause(new DomainError('no_space', 'There is no space left to store the file'), error);
  }
  return error;
};

export const withCause = (error: DomainError, cause: unknown): DomainError => Object.assign(error, { cause });
