import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toStorageError } from '#platform/storage/meter.ts';

export interface Spool {
  readonly size: number;
  chunks(): AsyncIterable<Buffer>;
  close(): Promise<void>;
}

/**
 * Buffers a stream of unknown length, so that it can be read again with a known length. Up to 1 MiB stays in memory.
 * More goes to a file that is unlinked at once, so a killed process leaves nothing behind.
 */
export const spool = async (source: AsyncIterable<Buffer | string>, directory: string): Promise<Spool> => {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let size = 0;
  let file: FileHandle | undefined;

  const spill = async () => {
    file ??= await openNameless(directory);
    const block = Buffer.concat(held, heldBytes);
    held = [];
    heldBytes = 0;
    for (let offset = 0; offset < block.length; ) {
      const { bytesWritten } = await file.write(block, offset);
      offset += bytesWritten;
    }
  };

  try {
    for await (const chunk of source) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      held.push(bytes);
      heldBytes += bytes.length;
      size += bytes.length;
      if (heldBytes >= BLOCK_BYTES) await spill();
    }
    if (file && heldBytes > 0) await spill();
  } catch (error) {
    await file?.close();
    throw toStorageError(error);
  }

  return {
    size,
    async *chunks() {
      if (!file) {
        yield* held;
        return;
      }
      for (let position = 0; position < size; ) {
        // A new block each time, because the compressor may still read the previous one.
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(BLOCK_BYTES), 0, BLOCK_BYTES, position);
        if (bytesRead === 0) throw new Error('a spooled file is shorter than the data written to it');
        position += bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
    },
    async close() {
      await file?.close();
    },
  };
};

const openNameless = async (directory: string): Promise<FileHandle> => {
  await mkdir(directory, { recursive: true });
  const path = join(directory, `spool-${randomUUID()}`);
  const file = await open(path, 'wx+', 0o600);
  await rm(path);
  return file;
};

const BLOCK_BYTES = 1024 * 1024;
