import { availableParallelism } from 'node:os';
import { Transform } from 'node:stream';
import { constants, crc32, deflateRaw } from 'node:zlib';

/**
 * Compresses with gzip on several cores. Blocks of 1 MiB are deflated in parallel in zlib's threads and joined to a
 * single gzip member that every tool can read. Each block uses the end of the previous one as its dictionary, so
 * compression is almost as good as in one stream. Memory use is limited to a few blocks.
 */
export const createParallelGzip = ({ level = 6 }: { readonly level?: number } = {}): Transform => {
  const inFlight: Promise<Buffer>[] = [];
  let gathered: Buffer[] = [];
  let gatheredBytes = 0;
  let window: Buffer | undefined;
  let crc = 0;
  let totalBytes = 0;

  const submit = (isLast: boolean) => {
    const [first] = gathered;
    const block = gathered.length === 1 && first ? first : Buffer.concat(gathered, gatheredBytes);
    gathered = [];
    gatheredBytes = 0;
    crc = crc32(block, crc);
    totalBytes += block.length;
    const job = deflateBlock(block, level, window, isLast);
    // The job is awaited later. Until then its failure must not count as unhandled.
    job.catch(() => undefined);
    inFlight.push(job);
    window = block.length >= WINDOW_BYTES ? block.subarray(-WINDOW_BYTES) : block;
  };

  const emitUntil = async (remaining: number) => {
    for (;;) {
      const [head] = inFlight;
      if (!head || inFlight.length <= remaining) return;
      const deflated = await head;
      inFlight.shift();
      gzip.push(deflated);
    }
  };

  const gzip = new Transform({
    writableHighWaterMark: BLOCK_BYTES,
    readableHighWaterMark: BLOCK_BYTES,
    construct(callback) {
      gzip.push(HEADER);
      callback();
    },
    transform(chunk: Buffer, _encoding, callback) {
      gathered.push(chunk);
      gatheredBytes += chunk.length;
      if (gatheredBytes < BLOCK_BYTES) return callback();
      submit(false);
      emitUntil(MAX_IN_FLIGHT - 1).then(() => callback(), callback);
    },
    flush(callback) {
      submit(true);
      emitUntil(0).then(() => {
        const trailer = Buffer.alloc(8);
        trailer.writeUInt32LE(crc, 0);
        trailer.writeUInt32LE(totalBytes % 2 ** 32, 4);
        callback(null, trailer);
      }, callback);
    },
  });
  return gzip;
};

const deflateBlock = (block: Buffer, level: number, dictionary: Buffer | undefined, isLast: boolean) =>
  new Promise<Buffer>((resolve, reject) => {
    const finishFlush = isLast ? constants.Z_FINISH : constants.Z_SYNC_FLUSH;
    const settings = { level, finishFlush, chunkSize: 256 * 1024, ...(dictionary?.length ? { dictionary } : {}) };
    deflateRaw(block, settings, (error, deflated) => {
      if (error) return reject(error);
      // zlib returns a slice of its chunk. The stream counts waiting data by its length, so hundreds of well-compressed
      // blocks may wait. Each of them would keep a whole chunk in memory.
      resolve(deflated.length * 2 < deflated.buffer.byteLength ? Buffer.from(deflated) : deflated);
    });
  });

const BLOCK_BYTES = 1024 * 1024;
const WINDOW_BYTES = 32 * 1024;
const MAX_IN_FLIGHT = Math.min(4, availableParallelism() + 1);

/** Deflate, no flags, no time (so that equal content gives equal bytes), created on Unix. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
