import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { comparePaths, isDirectory, type ZipEntry } from './entry.ts';

/**
 * The index of an archive is a file of lines, one per entry, sorted by path (`comparePaths`). It is divided into blocks
 * of lines. The row of the artifact has the first path and the offset of each block, so that Postgres finds the block
 * of a path, and one read of the file finds the entry (docs/decisions/0040-artifacts.md).
 */
export interface Blocks {
  /** The path in the first line of each block. */
  readonly paths: readonly string[];
  /** Where each block starts, and the size of the file at the end. */
  readonly offsets: readonly number[];
}

const BLOCK_BYTES = 16 * 1024;
const BLOCKS_PER_TURN = 8;

/** Returns the index file and its blocks. The entries are sorted. */
export const buildIndex = async (entries: readonly ZipEntry[]): Promise<{ content: Readable; blocks: Blocks }> => {
  const paths: string[] = [];
  const offsets: number[] = [0];
  const chunks: Buffer[] = [];
  for (let next = 0; next < entries.length; ) {
    paths.push(entries[next]?.path ?? '');
    let lines = '';
    for (; next < entries.length && lines.length < BLOCK_BYTES; next++) {
      const entry = entries[next];
      if (entry) lines += lineOf(entry);
    }
    const chunk = Buffer.from(lines);
    chunks.push(chunk);
    offsets.push((offsets.at(-1) ?? 0) + chunk.length);
    if (chunks.length % BLOCKS_PER_TURN === 0) await nextTurn();
  }
  return { content: Readable.from(chunks, { objectMode: false }), blocks: { paths, offsets } };
};

/** Reads a part of the index file. The end is exclusive. */
export type ReadPart = (start: number, end: number) => Promise<Buffer>;

/** Returns the entry of this path in the block that must have it, or null. */
export const findInBlock = (block: Buffer, path: string): ZipEntry | null => {
  // No path has this text inside, because JSON escapes its quotation marks.
  const start = block.indexOf(`[${JSON.stringify(path)},`);
  return start < 0 ? null : toEntry(block.toString('utf8', start, block.indexOf('\n', start)));
};

export interface TreeItem {
  readonly path: string;
  /** Null for a directory that has no entry of its own. */
  readonly entry: ZipEntry | null;
}

/**
 * Yields what is directly in a directory (`''` is the root), or at any depth below it, sorted by path. Directories end
 * with `/`, whether they have an entry or not. Below a directory that is not descended into, whole blocks are skipped.
 */
export async function* listTree(
  { paths, offsets }: Blocks,
  read: ReadPart,
  directory: string,
  recursive: boolean,
): AsyncGenerator<TreeItem> {
  const prefix = directory;
  let from = prefix;
  let last: string | null = null;
  for (let number = Math.max(0, blockOf(paths, from)); number < paths.length; ) {
    let next = number + 1;
    const block = await read(offsets[number] ?? 0, offsets[number + 1] ?? 0);
    for (const line of block.toString().trimEnd().split('\n')) {
      const entry = toEntry(line);
      if (comparePaths(entry.path, from) < 0) continue;
      if (!entry.path.startsWith(prefix)) return;
      if (entry.path === prefix) continue;
      for (const item of itemsOf(entry, prefix, recursive, last)) {
        yield item;
        last = item.path;
      }
      if (recursive) continue;
      const slash = entry.path.indexOf('/', prefix.length);
      if (slash < 0) continue;
      // The first path after everything below this directory: `0` follows `/`.
      from = `${entry.path.slice(0, slash)}0`;
      const skipped = blockOf(paths, from);
      if (skipped <= number) continue;
      next = skipped;
      break;
    }
    number = next;
  }
}

/** Returns the entry, after the directories above it that were not yielded yet. */
const itemsOf = (entry: ZipEntry, prefix: string, recursive: boolean, last: string | null): readonly TreeItem[] => {
  const items: TreeItem[] = [];
  for (let slash = entry.path.indexOf('/', prefix.length); slash >= 0; slash = entry.path.indexOf('/', slash + 1)) {
    const path = entry.path.slice(0, slash + 1);
    if (!last?.startsWith(path)) items.push({ path, entry: path === entry.path ? entry : null });
    if (!recursive) return items;
  }
  if (!isDirectory(entry)) items.push({ path: entry.path, entry });
  return items;
};

/** Returns the number of the block that may have the path: the last one that does not start after it; or -1. */
const blockOf = (paths: readonly string[], path: string): number => {
  let low = 0;
  let high = paths.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (comparePaths(paths[middle] ?? '', path) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
};

const lineSchema = z.tuple([
  z.string(),
  z.number(),
  z.number(),
  z.number(),
  z.number(),
  z.number(),
  z.number(),
  z.number(),
  z.boolean(),
]);

/** As `toEntry` reads it. `JSON.stringify` of the whole line takes twice as long. */
const lineOf = ({ path, size, compressed, crc, method, offset, span, mode, encrypted }: ZipEntry): string =>
  `[${JSON.stringify(path)},${size},${compressed},${crc},${method},${offset},${span},${mode},${encrypted}]\n`;

const toEntry = (line: string): ZipEntry => {
  const [path, size, compressed, crc, method, offset, span, mode, encrypted] = lineSchema.parse(JSON.parse(line));
  return { path, size, compressed, crc, method, offset, span, mode, encrypted };
};
