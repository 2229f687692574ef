import type { Readable } from 'node:stream';
import { badRequest } from '#platform/errors.ts';

/**
 * Files that all processes of the hub share: uploads, exports, artifacts. Keys look like `exports/12/archive.tar.gz`.
 * Every method raises DomainError: `bad_request` for a malformed key, `no_space` on a full disk, `unavailable` when the
 * object store cannot be reached.
 */
export interface Storage {
  /** Stores the whole stream or nothing; readers see the old content or the new, never a part. `too_large` past `maxBytes`. */
  write(key: string, source: Readable, options?: WriteOptions): Promise<StoredFile>;
  /** Opens a file, or a part of it; `not_found` when absent. The caller reads the stream to its end or destroys it. */
  read(key: string, range?: ByteRange): Promise<OpenFile>;
  stat(key: string): Promise<{ readonly size: number } | null>;
  /** Absent files are removed already. */
  remove(key: string): Promise<void>;
  /** All files whose key starts with the prefix, in no particular order. */
  list(prefix: string): AsyncIterable<ListedFile>;
  /** Resolves when files can be written and read, for readiness probes. */
  ready(): Promise<void>;
  /** Removes what broken-off writes left behind, if it is older than that; returns how many there were. */
  sweepTemporary(olderThanMs: number): Promise<number>;
  /** Removes what a process that died was writing. Safe to repeat. */
  removeDraftsOf(writer: string): Promise<void>;
  close(): Promise<void>;
}

export interface WriteOptions {
  readonly contentType?: string;
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
}

export interface StoredFile {
  readonly size: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

/** Positions as in HTTP: the first and the last byte, both included. */
export interface ByteRange {
  readonly start: number;
  readonly end?: number;
}

export interface OpenFile {
  readonly stream: Readable;
  /** Bytes that the stream will yield. */
  readonly size: number;
  /** Bytes of the whole file. */
  readonly totalSize: number;
}

export interface ListedFile {
  readonly key: string;
  readonly size: number;
  readonly modifiedAt: Date;
}

/** Refuses keys that could leave the storage or collide with its own files. */
export const assertKey = (key: string): void => {
  if (!KEY.test(key) || key.length > 512 || key.split('/').some((part) => part === '.' || part === '..')) {
    throw badRequest('invalid storage key');
  }
};

/** The part of a file of `totalSize` bytes that the range asks for; throws `bad_request` when it lies outside. */
export const resolveRange = (totalSize: number, range?: ByteRange): { start: number; size: number } => {
  if (!range) return { start: 0, size: totalSize };
  const end = Math.min(range.end ?? totalSize - 1, totalSize - 1);
  if (!Number.isSafeInteger(range.start) || range.start < 0 || range.start > end) {
    throw badRequest('range is not satisfiable');
  }
  return { start: range.start, size: end - range.start + 1 };
};

const KEY = /^[A-Za-z0-9_][A-Za-z0-9_.=@+-]*(?:\/[A-Za-z0-9_.=@+-]+)*$/;
