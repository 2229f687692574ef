import { pipeline, Readable } from 'node:stream';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import { type ZipEntry, ZipProblem } from './entry.ts';

const LOCAL_HEADER_BYTES = 30;
const SIGNATURE = 0x04034b50;
const DEFLATED = 8;

/** Files up to this size are read and unpacked at once, which takes less than a stream. */
const SMALL_BYTES = 64 * 1024;

export const isSmall = ({ size, span }: ZipEntry): boolean => size <= SMALL_BYTES && span <= 2 * SMALL_BYTES;

/**
 * Returns the content of a small file. `bytes` are the part of the archive at the entry (`offset`, `span`).
 *
 * @throws ZipProblem as `openFile`
 */
export const unpackSmall = (entry: ZipEntry, bytes: Buffer): Buffer => {
  if (bytes.length < LOCAL_HEADER_BYTES || bytes.readUInt32LE(0) !== SIGNATURE) throw misplaced();
  const start = LOCAL_HEADER_BYTES + bytes.readUInt16LE(26) + bytes.readUInt16LE(28);
  const data = bytes.subarray(start, start + entry.compressed);
  if (data.length < entry.compressed) throw cutOff();
  const content = entry.method === DEFLATED ? inflateSmall(data, entry.size) : data;
  assertContent(entry, content.length, crc32(content));
  return content;
};

const inflateSmall = (data: Buffer, size: number): Buffer => {
  try {
    return inflateRawSync(data, { maxOutputLength: Math.max(size, 1) });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge();
    throw isOfZlib(error) ? new ZipProblem('is damaged') : error;
  }
};

const assertContent = ({ size, crc }: ZipEntry, received: number, sum: number): void => {
  if (received > size) throw tooLarge();
  if (received < size) throw new ZipProblem('is smaller than its directory says');
  if (sum !== crc) throw new ZipProblem('has a wrong checksum');
};

const misplaced = () => new ZipProblem('is not where its directory says');
const cutOff = () => new ZipProblem('is cut off');
const tooLarge = () => new ZipProblem('is larger than its directory says');

/**
 * Returns the content of a file. `archive` is the part of the archive at the entry (`offset`, `span`). The first part
 * of the content is already unpacked, so that a damaged small file fails here and not while it is sent.
 *
 * The stream never yields more than `entry.size` bytes. It fails before its last bytes if the size or the checksum is
 * not as the directory says.
 *
 * @throws ZipProblem if the entry is damaged
 */
export const openFile = async (entry: ZipEntry, archive: Readable): Promise<Readable> => {
  const content = checked(entry, unpacked(entry, archive));
  try {
    const first = await content.next();
    return Readable.from(startingWith(first, content), { objectMode: false });
  } catch (error) {
    archive.destroy();
    throw error;
  }
};

async function* startingWith(first: IteratorResult<Buffer>, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  try {
    if (first.done) return;
    yield first.value;
    yield* rest;
  } finally {
    await rest.return(undefined);
  }
}

/** The last chunk is held back until the size and the checksum are known to be right. */
async function* checked(entry: ZipEntry, chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer | null = null;
  let received = 0;
  let sum = 0;
  for await (const chunk of chunks) {
    received += chunk.length;
    if (received > entry.size) throw tooLarge();
    sum = crc32(chunk, sum);
    if (held) yield held;
    held = chunk;
  }
  assertContent(entry, received, sum);
  if (held) yield held;
}

async function* unpacked(entry: ZipEntry, archive: Readable): AsyncGenerator<Buffer> {
  const data = Readable.from(dataOf(entry, archive), { objectMode: false });
  if (entry.method !== DEFLATED) {
    yield* data;
    return;
  }
  const inflate = createInflateRaw({ chunkSize: 64 * 1024 });
  pipeline(data, inflate, () => undefined);
  try {
    yield* inflate;
  } catch (error) {
    throw isOfZlib(error) ? new ZipProblem('is damaged') : error;
  } finally {
    inflate.destroy();
  }
}

const isOfZlib = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('Z_');

/** Yields the data of the entry, without its local header and what follows. */
async function* dataOf({ compressed }: ZipEntry, archive: Readable): AsyncGenerator<Buffer> {
  let head: Buffer = Buffer.alloc(0);
  let skip: number | null = null;
  let left = compressed;
  for await (const part of archive) {
    let chunk: Buffer = part;
    if (skip === null) {
      head = Buffer.concat([head, chunk]);
      if (head.length < LOCAL_HEADER_BYTES) continue;
      if (head.readUInt32LE(0) !== SIGNATURE) throw misplaced();
      skip = LOCAL_HEADER_BYTES + head.readUInt16LE(26) + head.readUInt16LE(28);
      chunk = head;
    }
    const skipped = Math.min(skip, chunk.length);
    skip -= skipped;
    const data = chunk.subarray(skipped, skipped + left);
    left -= data.length;
    if (data.length > 0) yield data;
    if (skip === 0 && left === 0) return;
  }
  if (skip !== 0 || left > 0) throw cutOff();
}
