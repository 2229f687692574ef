import { ZipProblem } from './entry.ts';

/** An archive whose parts can be read. */
export interface ZipSource {
  readonly size: number;
  /** Reads `length` bytes at `start`, both inside the archive. */
  read(start: number, length: number): Promise<Buffer>;
}

/** Where the directory of a zip is. */
interface DirectoryPlace {
  readonly start: number;
  /** Bytes. */
  readonly size: number;
  readonly entries: number;
}

const END_BYTES = 22;
const END_SIGNATURE = Buffer.from('PK\x05\x06');
const MAX_COMMENT_BYTES = 0xffff;
const LOCATOR_BYTES = 20;
const LOCATOR_SIGNATURE = 0x07064b50;
const END_64_BYTES = 56;
const END_64_SIGNATURE = 0x06064b50;
/** The value of a field whose real value is in the record of Zip64. */
const MAX_16 = 0xffff;
const MAX_32 = 0xffffffff;

/**
 * Finds the directory of a zip by the record at the end of the archive (APPNOTE.TXT 4.3.14 to 4.3.16).
 *
 * @throws ZipProblem if there is none, or if it cannot be inside the archive
 */
export const findDirectory = async (source: ZipSource): Promise<DirectoryPlace> => {
  const tail = Math.min(source.size, END_BYTES + MAX_COMMENT_BYTES + LOCATOR_BYTES);
  const bytes = tail > 0 ? await source.read(source.size - tail, tail) : Buffer.alloc(0);
  const at = positionOfEnd(bytes);
  const endPosition = source.size - tail + at;
  const disks = bytes.readUInt32LE(at + 4);
  const short = {
    entries: bytes.readUInt16LE(at + 10),
    size: bytes.readUInt32LE(at + 12),
    start: bytes.readUInt32LE(at + 16),
  };
  const isShort = short.entries !== MAX_16 && short.size !== MAX_32 && short.start !== MAX_32;
  const hasLocator = at >= LOCATOR_BYTES && bytes.readUInt32LE(at - LOCATOR_BYTES) === LOCATOR_SIGNATURE;
  if (isShort || !hasLocator) {
    if (disks !== 0) throw new ZipProblem('it is a part of several');
    return within(short, endPosition);
  }
  const end64 = Number(bytes.readBigUInt64LE(at - LOCATOR_BYTES + 8));
  if (end64 + END_64_BYTES > endPosition - LOCATOR_BYTES) throw new ZipProblem('it is cut off');
  const record = await source.read(end64, END_64_BYTES);
  if (record.readUInt32LE(0) !== END_64_SIGNATURE) throw new ZipProblem('the end of its directory is damaged');
  const long = {
    entries: Number(record.readBigUInt64LE(32)),
    size: Number(record.readBigUInt64LE(40)),
    start: Number(record.readBigUInt64LE(48)),
  };
  return within(long, end64);
};

/** The comment of the archive follows the record and reaches to the end. It may look like a record itself. */
const positionOfEnd = (bytes: Buffer): number => {
  const last = bytes.length - END_BYTES;
  // A negative offset would count from the end.
  for (let at = last < 0 ? -1 : bytes.lastIndexOf(END_SIGNATURE, last); at >= 0; ) {
    if (at + END_BYTES + bytes.readUInt16LE(at + 20) === bytes.length) return at;
    at = at === 0 ? -1 : bytes.lastIndexOf(END_SIGNATURE, at - 1);
  }
  throw new ZipProblem('the end of its directory was not found');
};

const within = (place: DirectoryPlace, end: number): DirectoryPlace => {
  if (place.start + place.size > end) throw new ZipProblem('it is cut off');
  return place;
};
