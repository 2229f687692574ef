import type { Readable } from 'node:stream';
import { toEntryName } from './entry-name.ts';
import { type ContentSum, createParallelGzip, type DeflatedBlock, deflateBlocks } from './parallel-gzip.ts';
import { spool } from './spool.ts';
import { tarEnd, tarHeader, tarPadding } from './tar-header.ts';

/** Writes a gzip-compressed tar as a stream. Entries are added one after the other, as fast as `output` is read. */
export interface ArchiveWriter {
  /** The archive. Destroying it makes the pending `entry` fail. */
  readonly output: Readable;
  /**
   * Adds a file and returns its size. A stream of unknown size is compressed first, into a temporary file, because tar
   * needs the size in advance. A stream that differs from its announced size ruins the archive, so `output` fails with
   * the same error.
   */
  entry(
    name: string,
    source: Buffer | string | AsyncIterable<Buffer | string>,
    options?: { readonly size?: number },
  ): Promise<number>;
  /** Ends the archive. Resolves when all of it has been passed to `output`. */
  finish(): Promise<void>;
  /** Aborts the archive: `output` fails with this error. */
  abort(error: Error): void;
}

export const createArchiveWriter = (options: {
  /** The folder for temporary buffer files. */
  readonly temporaryDirectory: string;
}): ArchiveWriter => {
  const gzip = createParallelGzip();
  // The reader of the output and the callers of `entry` both get errors. Before that no listener exists.
  gzip.on('error', () => undefined);
  let busy = false;

  const write = async (bytes: Buffer | DeflatedBlock) => {
    if (Buffer.isBuffer(bytes) && bytes.length === 0) return;
    if (gzip.destroyed) throw gzip.errored ?? new Error('the archive was aborted');
    if (!gzip.write(bytes)) await drained(gzip);
  };

  const writeFile = async (name: string, size: number, chunks: AsyncIterable<Buffer | string>) => {
    await write(tarHeader(name, size));
    let written = 0;
    for await (const chunk of chunks) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
      written += bytes.length;
      if (written > size) break;
      await write(bytes);
    }
    if (written !== size) throw new Error(`the archive entry ${name} does not have the announced ${size} bytes`);
    await write(tarPadding(size));
    return size;
  };

  const writeDeflated = async (name: string, source: AsyncIterable<Buffer | string>) => {
    const sums: ContentSum[] = [];
    const deflate = async function* () {
      for await (const { deflated, size, crc } of deflateBlocks(source)) {
        sums.push({ size, crc });
        yield deflated;
      }
    };
    const spooled = await spool(deflate(), options.temporaryDirectory);
    try {
      const size = sums.reduce((total, sum) => total + sum.size, 0);
      await write(tarHeader(name, size));
      // The spool cuts anywhere, so the sums follow the bytes.
      for await (const deflated of spooled.chunks()) await write({ deflated, size: 0, crc: 0 });
      for (const sum of sums) await write({ deflated: NOTHING, ...sum });
      await write(tarPadding(size));
      return size;
    } finally {
      await spooled.close();
    }
  };

  const add: ArchiveWriter['entry'] = async (rawName, source, { size } = {}) => {
    const name = toEntryName(rawName);
    if (typeof source === 'string' || Buffer.isBuffer(source)) {
      const bytes = Buffer.from(source);
      return writeFile(name, bytes.length, once(bytes));
    }
    return size === undefined ? writeDeflated(name, source) : writeFile(name, size, source);
  };

  return {
    output: gzip,
    async entry(name, source, sizes) {
      if (busy) throw new Error('archive entries are written one at a time');
      busy = true;
      try {
        return await add(name, source, sizes);
      } catch (error) {
        gzip.destroy(error instanceof Error ? error : new Error(String(error)));
        throw error;
      } finally {
        busy = false;
      }
    },
    async finish() {
      await write(tarEnd());
      await new Promise<void>((resolve, reject) => {
        gzip.once('error', reject);
        gzip.once('close', () => reject(new Error('the archive was aborted')));
        gzip.end(() => resolve());
      });
    },
    abort(error) {
      gzip.destroy(error);
    },
  };
};

const NOTHING = Buffer.alloc(0);

async function* once(bytes: Buffer) {
  yield bytes;
}

/** Resolves on `drain`. Unlike `events.once`, it also detects a stream that is closed without an error. */
const drained = (stream: Readable): Promise<void> =>
  new Promise((resolve, reject) => {
    const settle = (error?: Error) => {
      stream.off('drain', onDrain).off('error', settle).off('close', onClose);
      if (error) reject(error);
      else resolve();
    };
    const onDrain = () => settle();
    const onClose = () => settle(stream.errored ?? new Error('the archive was aborted'));
    stream.on('drain', onDrain).on('error', settle).on('close', onClose);
  });
