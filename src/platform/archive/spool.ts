import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { notePassed } from '#platform/process/collect.ts';
import { toStorageError } from '#platform/storage/meter.ts';

export interface Spool {
  readonly size: number;
  chunks(): AsyncIterable<Buffer>;
  close(): Promise<void>;
}

/**
 * Buffers a stream of unknown length, so that it can be read again with a known length. Up to 1 MiB stays in memory.
 * More goes to a file without a name, so a killed process leaves nothing behind.
 */
export const spool = async (source: AsyncIterable<Buffer | string>, directory: string): Promise<Spool> => {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let size = 0;
  let file: FileHandle | undefined;

  const spill = async () => {
    file ??= await openNameless(directory);
    const written = heldBytes;
    for (let left = held; left.length > 0; ) left = without(left, (await file.writev(left)).bytesWritten);
    held = [];
    heldBytes = 0;
    notePassed(written);
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
        notePassed(bytesRead);
        yield buffer.subarray(0, bytesRead);
      }
    },
    async close() {
      await file?.close();
    },
  };
};

/** Returns what is left of the buffers after their first bytes. */
const without = (buffers: readonly Buffer[], bytes: number): Buffer[] => {
  let skip = bytes;
  const left: Buffer[] = [];
  for (const each of buffers) {
    if (skip < each.length) left.push(each.subarray(skip));
    skip = Math.max(0, skip - each.length);
  }
  return left;
};

/** Linux: open a file without a name in a directory. Node has no constant for it. */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;
/** The errors of `open` if the kernel or the file system has no such files. */
const NOT_SUPPORTED = new Set<unknown>(['EOPNOTSUPP', 'EISDIR', 'ENOENT', 'EINVAL']);

const openNameless = async (directory: string): Promise<FileHandle> => {
  await mkdir(directory, { recursive: true });
  if (process.platform !== 'linux') return openAndUnlink(directory);
  try {
    return await open(directory, constants.O_RDWR | constants.O_EXCL | O_TMPFILE, 0o600);
  } catch (error) {
    if (error instanceof Error && 'code' in error && NOT_SUPPORTED.has(error.code)) return openAndUnlink(directory);
    throw error;
  }
};

/** A process that is killed in between leaves an empty file. */
const openAndUnlink = async (directory: string): Promise<FileHandle> => {
  const path = join(directory, `spool-${randomUUID()}`);
  const file = await open(path, 'wx+', 0o600);
  await rm(path);
  return file;
};

const BLOCK_BYTES = 1024 * 1024;
