import type { Readable } from 'node:stream';
import type { Context } from '#platform/context.ts';
import type { Storage } from '#platform/storage/storage.ts';

export interface FileOptions {
  /** More is refused while it arrives; null means no limit. A function is asked for each request. */
  readonly maxBytes: number | null | ((ctx: Context) => number | null | Promise<number | null>);
  /** What is wrong with a file that is larger, said as of a bad attribute (400); without it the answer is 413. */
  readonly tooLarge?: string;
}

/** Where uploads wait while their request is checked. What a crash leaves here is old rubbish. */
export const UPLOAD_PREFIX = 'tmp/uploads/';

interface SpooledFileFields {
  readonly key: string;
  readonly size: number;
  readonly sha256: string;
  readonly filename: string;
  readonly contentType: string;
}

/** An uploaded file, whole and in storage under `key`. */
export class SpooledFile implements SpooledFileFields {
  readonly key: string;
  readonly size: number;
  /** Hexadecimal. */
  readonly sha256: string;
  /** As the client named it, without directories; not to be trusted as a path. */
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

  /** Leaves the file at its key, which now belongs to the caller: call it once the key has been recorded. */
  keep(): string {
    this.#kept = true;
    return this.key;
  }

  /** Ends the request's hold on the file: removes it unless it was kept. */
  async release(): Promise<void> {
    if (!this.#kept) await this.#storage.remove(this.key);
  }
}

/** Removes uploads whose process died before it could: all older than any request may last, but those that were kept. */
export const sweepUploads = async (storage: Storage, before: Date, kept: ReadonlySet<string>): Promise<number> => {
  let removed = 0;
  for await (const file of storage.list(UPLOAD_PREFIX)) {
    if (file.modifiedAt >= before || kept.has(file.key)) continue;
    await storage.remove(file.key);
    removed += 1;
  }
  return removed;
};
