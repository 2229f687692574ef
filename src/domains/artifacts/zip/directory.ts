import { setImmediate as nextTurn } from 'node:timers/promises';
import { isStorable } from '#platform/values/storable.ts';
import { findDirectory, type ZipSource } from './end-of-directory.ts';
import { comparePaths, type ZipEntry, ZipProblem } from './entry.ts';

export interface ZipLimits {
  readonly maxEntries: number;
  readonly maxDirectoryBytes: number;
}

const LIMITS: ZipLimits = { maxEntries: 200_000, maxDirectoryBytes: 64 * 1024 * 1024 };
const MAX_PATH_BYTES = 4_096;
/** How much of the directory is read at once. */
const WINDOW_BYTES = 1024 * 1024;
/** After so many entries other requests get a turn. */
const ENTRIES_PER_TURN = 2_000;

/**
 * Reads the directory of a zip, and nothing else of it. Returns the entries with usable paths, sorted by path. If
 * entries have the same path, the last one stays. Absolute paths, `..`, NUL, and names that are not UTF-8 are left out:
 * no request can name them.
 *
 * It is read here, and not with a library, because an archive has tens of thousands of entries
 * (docs/decisions/0046-large-uploads.md).
 *
 * @throws ZipProblem if it is no zip, is damaged, has overlapping entries, or is beyond the limits
 */
export const readDirectory = async (source: ZipSource, limits: ZipLimits = LIMITS): Promise<ZipEntry[]> => {
  const place = await findDirectory(source);
  if (place.entries > limits.maxEntries) throw new ZipProblem(`it has more than ${limits.maxEntries} entries`);
  if (place.size > limits.maxDirectoryBytes) {
    throw new ZipProblem(`its directory is larger than ${limits.maxDirectoryBytes} bytes`);
  }
  const end = place.start + place.size;
  const found: FoundEntry[] = [];
  let window: Buffer = Buffer.alloc(0);
  /** Where the window starts in the archive, and where the next entry starts in the window. */
  let [windowStart, at] = [place.start, 0];
  /** Makes `length` bytes at the next entry available. */
  const load = async (length: number): Promise<void> => {
    if (at + length <= window.length) return;
    const start = windowStart + at;
    if (start + length > end) throw new ZipProblem('its directory is cut off');
    window = await source.read(start, Math.min(Math.max(length, WINDOW_BYTES), end - start));
    [windowStart, at] = [start, 0];
  };
  while (found.length < place.entries) {
    if (at + HEADER_BYTES > window.length) await load(HEADER_BYTES);
    const length = lengthOf(window, at);
    if (at + length > window.length) await load(length);
    found.push(toEntry(window, at));
    at += length;
    if (found.length % ENTRIES_PER_TURN === 0) await nextTurn();
  }
  setSpans(found, place.start);
  return sortedByPath(found);
};

const sortedByPath = (found: readonly FoundEntry[]): ZipEntry[] => {
  const sorted = found.filter(({ path }) => path !== '').sort((a, b) => comparePaths(a.path, b.path));
  return sorted.filter(({ path }, index) => sorted[index + 1]?.path !== path);
};

/** An entry whose `span` is not known yet. The path is empty if no request can name it. */
interface FoundEntry extends ZipEntry {
  span: number;
  readonly nameLength: number;
}

const HEADER_BYTES = 46;
const HEADER_SIGNATURE = 0x02014b50;
const LOCAL_HEADER_BYTES = 30;
const UNIX = 3;
/** Encrypted, or encrypted with a strong method. */
const ENCRYPTED_FLAGS = 0x41;

/** Returns how many bytes the header of an entry takes, with its name, its extra fields and its comment. */
const lengthOf = (bytes: Buffer, at: number): number => {
  if (bytes.readUInt32LE(at) !== HEADER_SIGNATURE) throw new ZipProblem('its directory is damaged');
  return HEADER_BYTES + bytes.readUInt16LE(at + 28) + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
};

/** Reads the header of an entry (APPNOTE.TXT 4.3.12). */
const toEntry = (bytes: Buffer, at: number): FoundEntry => {
  const nameLength = bytes.readUInt16LE(at + 28);
  const extraStart = at + HEADER_BYTES + nameLength;
  const extra = bytes.subarray(extraStart, extraStart + bytes.readUInt16LE(at + 30));
  const [size, compressed, offset] = longValues(
    [bytes.readUInt32LE(at + 24), bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 42)],
    extra,
  );
  return {
    path: pathOf(bytes, at + HEADER_BYTES, nameLength),
    size,
    compressed,
    crc: bytes.readUInt32LE(at + 16),
    method: bytes.readUInt16LE(at + 10),
    offset,
    span: 0,
    // Only archives from Unix have the mode.
    mode: bytes[at + 5] === UNIX ? bytes.readUInt16LE(at + 40) : 0,
    encrypted: (bytes.readUInt16LE(at + 8) & ENCRYPTED_FLAGS) !== 0,
    nameLength,
  };
};

type Values = readonly [size: number, compressed: number, offset: number];

const MAX_32 = 0xffffffff;
const ZIP64_FIELD = 1;

/** Replaces values that are too large for the header. The extra field of Zip64 has them in this order. */
const longValues = (values: Values, extra: Buffer): Values => {
  if (values[0] !== MAX_32 && values[1] !== MAX_32 && values[2] !== MAX_32) return values;
  for (let at = 0; at + 4 <= extra.length; ) {
    const end = at + 4 + extra.readUInt16LE(at + 2);
    if (extra.readUInt16LE(at) === ZIP64_FIELD && end <= extra.length) {
      let next = at + 4;
      const long = (value: number): number => {
        if (value !== MAX_32) return value;
        if (next + 8 > end) throw new ZipProblem('its directory is damaged');
        next += 8;
        return Number(extra.readBigUInt64LE(next - 8));
      };
      return [long(values[0]), long(values[1]), long(values[2])];
    }
    at = end;
  }
  return values;
};

/**
 * Sets how far each entry reaches: to the start of the next one, or of the directory.
 *
 * @throws ZipProblem if the data of two entries overlap, or lie outside the archive. Such archives unpack to far more
 *   than their size
 */
const setSpans = (entries: readonly FoundEntry[], directoryStart: number): void => {
  let end = directoryStart;
  for (const entry of entries.toSorted((a, b) => a.offset - b.offset).reverse()) {
    const { offset } = entry;
    const least = LOCAL_HEADER_BYTES + entry.nameLength + entry.compressed;
    if (!Number.isSafeInteger(offset + least) || offset + least > end) {
      throw new ZipProblem(end === directoryStart ? 'an entry lies outside of it' : 'its entries overlap');
    }
    entry.span = end - offset;
    end = offset;
  }
};

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const PLAIN = /^[\x20-\x7e]*$/;

/** Returns the path, or an empty text if no request can name it. */
const pathOf = (bytes: Buffer, start: number, length: number): string => {
  if (length > MAX_PATH_BYTES) return '';
  let name = bytes.toString('latin1', start, start + length);
  if (!PLAIN.test(name)) {
    try {
      name = decoder.decode(bytes.subarray(start, start + length));
    } catch {
      return '';
    }
  }
  const path = name.startsWith('./') ? name.replace(/^(?:\.\/)+/, '') : name;
  return isUsablePath(path) ? path : '';
};

/** A segment that is empty, `.` or `..`. */
const BAD_SEGMENT = /(?:^|\/)\.{0,2}(?:\/|$)/;

/** Returns whether the path is relative and names something inside the archive. A directory may end with `/`. */
export const isUsablePath = (path: string): boolean =>
  isStorable(path) && !BAD_SEGMENT.test(path.endsWith('/') ? path.slice(0, -1) : path);
