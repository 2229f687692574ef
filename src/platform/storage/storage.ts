import type { Readable } from 'node:stream';
import { badRequest, type DomainError } from '#platform/errors.ts';

/**
 * Files shared by all processes of the hub: uploads, exports, artifacts. Keys look like `exports/12/archive.tar.gz`.
 * Every method throws DomainError: `bad_request` for a malformed key, `no_space` on a full disk, `unavailable` if the
 * object store cannot be reached.
 */
export interface Storage {
  /**
   * Stores the whole stream or nothing. Readers see either the old or the new content, never a part. Throws `too_large`
   * beyond `maxBytes`.
   */
  write(key: string, source: Readable, options?: WriteOptions): Promise<StoredFile>;
  /**
   * Opens a file or a part of it. Throws `not_found` if it does not exist. The caller must read the stream to its end
   * or destroy it.
   */
  read(key: string, range?: ByteRange): Promise<OpenFile>;
  /**
   * Reads a part of a file into memory, which is cheaper than a stream. Ends at the end of the file. Throws as `read`.
   */
  readPart(key: string, range: Required<ByteRange>): Promise<Buffer>;
  stat(key: string): Promise<{ readonly size: number } | null>;
  /** Removes a file. Succeeds if it does not exist. */
  remove(key: string): Promise<void>;
  /** Yields all files whose key starts with the prefix, in no particular order. */
  list(prefix: string): AsyncIterable<ListedFile>;
  /**
   * Returns a URL that serves the file as an attachment to everyone who has it. Null if only the hub can serve it. Does
   * not check that the file exists.
   */
  signedUrl(
    key: string,
    options: { readonly filename: string; readonly expiresInSeconds: number },
  ): Promise<string | null>;
  /** Resolves if files can be written and read. For readiness probes. */
  ready(): Promise<void>;
  /** Removes the remains of interrupted writes that are older than this. Returns how many it removed. */
  sweepTemporary(olderThanMs: number): Promise<number>;
  /** Removes unfinished writes of a dead process. Safe to repeat. */
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

/** Positions as in HTTP: the first and the last byte, both inclusive. */
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

/** Refuses keys that could escape the storage or conflict with its own files. */
export const assertKey = (key: string): void => {
  if (!KEY.test(key) || key.length > 512 || key.split('/').some((part) => part === '.' || part === '..')) {
    throw badRequest('invalid storage key');
  }
};

/** Returns the requested part of a file of `totalSize` bytes. Throws `bad_request` if it lies outside. */
export const resolveRange = (totalSize: number, range?: ByteRange): { start: number; size: number } => {
  if (!range) return { start: 0, size: totalSize };
  assertRange(range);
  const end = Math.min(range.end ?? totalSize - 1, totalSize - 1);
  if (range.start > end) throw outside();
  return { start: range.start, size: end - range.start + 1 };
};

/** Refuses ranges that no file has. */
export const assertRange = ({ start, end = start }: ByteRange): void => {
  if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || start < 0 || start > end) throw outside();
};

/** The error for a range that lies outside of the file. */
export const outside = (): DomainError => badRequest('range is not satisfiable');

const KEY = /^[A-Za-z0-9_][A-Za-z0-9_.=@+-]*(?:\/[A-Za-z0-9_.=@+-]+)*$/;
