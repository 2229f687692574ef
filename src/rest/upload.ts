import type { Readable } from 'node:stream';
import type { Context } from '#platform/context.ts';
import type { Storage } from '#platform/storage/storage.ts';

export interface FileOptions {
  /** Larger files are refused while they arrive. Null means no limit. A function is called for each request. */
  readonly maxBytes: number | null | ((ctx: Context) => number | null | Promise<number | null>);
  /** The message for a file that is too large, reported as an invalid attribute (400). Without it the status is 413. */
  readonly tooLarge?: string;
  /** The setting that limits the size. The error names it. */
  readonly setting?: string;
}

/** Where an uploaded file is stored, and how large it may be. */
export interface FilePlace {
  readonly key: string;
  /** Null means no limit. */
  readonly maxBytes: number | null;
  /** The error for a larger file, if it differs from that of the storage. */
  readonly tooLarge?: Error;
}

/** Where uploads are stored while their request is checked. `sweepUploads` removes files that a crash left here. */
export const UPLOAD_PREFIX = 'tmp/uploads/';

interface SpooledFileFields {
  readonly key: string;
  readonly size: number;
  readonly sha256: string;
  readonly filename: string;
  readonly contentType: string;
}

/** An uploaded file that is complete and stored under `key`. */
export class SpooledFile implements SpooledFileFields {
  readonly key: string;
  readonly size: number;
  /** Hexadecimal. */
  readonly sha256: string;
  /** The client's filename without directories. Do not trust it as a path. */
  readonly filename: string;
  readonly contentType: string;
  readonly #storage: Storage;
  #kept = false;

  constructor(fields: SpooledFileFields, storage: Storage) {
    this.key = fields.key;
    this.size = fields.size;
    this.sha256 = fields.sha256;
    this.filename = fields.filename;
    this.contentType = fields.contentType;
    this.#storage = storage;
  }

  async open(): Promise<Readable> {
    return (await this.#storage.read(this.key)).stream;
  }

  /** Keeps the file at its key, which now belongs to the caller. Call this after the key has been recorded. */
  keep(): string {
    this.#kept = true;
    return this.key;
  }

  /** Removes the file unless it was kept. */
  async release(): Promise<void> {
    if (!this.#kept) await this.#storage.remove(this.key);
  }
}

/**
 * Removes uploads older than `before` that a dead process left behind. No request lasts that long. Skips files in
 * `kept`. Returns the number of removed files.
 */
export const sweepUploads = async (storage: Storage, before: Date, kept: ReadonlySet<string>): Promise<number> => {
  let removed = 0;
  for await (const file of storage.list(UPLOAD_PREFIX)) {
    if (file.modifiedAt >= before || kept.has(file.key)) continue;
    await storage.remove(file.key);
    removed += 1;
  }
  return removed;
};
