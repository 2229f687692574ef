/** An entry of a zip, as its directory describes it. */
export interface ZipEntry {
  /** Relative, with `/` between the segments. Directories end with `/`. */
  readonly path: string;
  /** Bytes of the file. */
  readonly size: number;
  /** Bytes in the archive. */
  readonly compressed: number;
  readonly crc: number;
  /** 0 is stored, 8 is deflated. */
  readonly method: number;
  /** Where its local header starts in the archive. */
  readonly offset: number;
  /** Bytes from there to the next entry: the local header, the data and what follows them. */
  readonly span: number;
  /** The bits of the file type and the permissions. 0 if the archive does not have them. */
  readonly mode: number;
  readonly encrypted: boolean;
}

/** A zip, or an entry of one, that cannot be read. The message completes "the archive cannot be read: ". */
export class ZipProblem extends Error {
  override readonly name = 'ZipProblem';
}

const TYPE_BITS = 0o170000;
const SYMLINK = 0o120000;
const REGULAR = 0o100000;

const STORED = 0;
const DEFLATED = 8;
/** Deflate makes 1,032 bytes of one byte at most. */
const MAX_RATIO = 1_032;
/** Larger files must not be compressed more than this. */
const LARGE_BYTES = 256 * 1024 * 1024;
const MAX_RATIO_OF_LARGE = 200;

/**
 * Compares by Unicode code points. This is the order of their bytes in UTF-8, and that of Postgres with the collation
 * "C". `<` differs from it beyond U+FFFF.
 */
export const comparePaths = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [unitOfA, unitOfB] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (unitOfA !== unitOfB) return orderOf(unitOfA) - orderOf(unitOfB);
  }
  return a.length - b.length;
};

/** Surrogates stand for code points beyond all others. */
const orderOf = (unit: number): number => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit);

export const isDirectory = ({ path }: Pick<ZipEntry, 'path'>): boolean => path.endsWith('/');

const isSymlink = ({ mode }: Pick<ZipEntry, 'mode'>): boolean => (mode & TYPE_BITS) === SYMLINK;

/** Returns why the entry cannot be served as a file, or null if it can. Completes "<path> ". */
export const problemOf = (entry: ZipEntry): string | null => {
  if (isSymlink(entry)) return 'is a symbolic link';
  const type = entry.mode & TYPE_BITS;
  if (type !== 0 && type !== REGULAR) return 'is not a regular file';
  if (entry.encrypted) return 'is encrypted';
  if (entry.method !== STORED && entry.method !== DEFLATED) return 'is compressed in a way that is not supported';
  if (entry.method === STORED && entry.size !== entry.compressed) return 'has two sizes';
  if (entry.size > entry.compressed * MAX_RATIO + MAX_RATIO) return 'is larger than its data can be';
  if (entry.size > LARGE_BYTES && entry.size > entry.compressed * MAX_RATIO_OF_LARGE)
    return 'is compressed too densely';
  return null;
};
