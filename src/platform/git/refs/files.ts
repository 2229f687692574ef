import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { validFullRef } from '../ref-names.ts';
import type { Ref } from '../refs.ts';

// Starting a process costs the hub more than reading the files itself. git's ref formats are public
// (gitrepository-layout, pack-refs). Everything outside these formats is left to git.

/** With more files than this, git is faster. */
const MAX_LOOSE = 500;
const OID_LINE = /^(?:[0-9a-f]{40}|[0-9a-f]{64})\n?$/;

/**
 * Reads the refs below a prefix such as `refs/heads/`, sorted by name. Returns null if only git can answer: for another
 * format, symbolic refs, too many files, or if the prefix does not exist.
 *
 * Reads the files first and the packed refs after them. Packing writes a ref to the packed refs before it removes the
 * file, and a deletion removes the packed ref before the file. So each ref is seen as it was at some moment during the
 * call.
 */
export const readRefFiles = async (repository: string, prefix: string): Promise<Ref[] | null> => {
  const loose = await looseRefs(repository, prefix);
  if (loose === null) return null;
  const packed = packedRefs(await contentOf(join(repository, 'packed-refs')), prefix);
  return packed && merged(packed, loose);
};

/** Returns the value of one ref, null if there is no such ref, or undefined if only git can answer. */
export const readRefFile = async (repository: string, ref: string): Promise<string | null | undefined> => {
  const loose = await contentOf(join(repository, ref));
  if (loose !== null) return OID_LINE.test(loose) ? loose.trimEnd() : undefined;
  const packed = await contentOf(join(repository, 'packed-refs'));
  const at = packed?.indexOf(` ${ref}\n`) ?? -1;
  if (packed && at >= 0) return packed.slice(packed.lastIndexOf('\n', at) + 1, at);
  // Repositories in other formats lack this folder.
  return (await isFolder(join(repository, 'refs/heads'))) ? null : undefined;
};

/** Returns the branch that HEAD names and its value, or null if there is none or only git can answer. */
export const readHead = async (repository: string): Promise<Pick<Ref, 'name' | 'oid'> | null> => {
  const name = /^ref: (refs\/heads\/.+)\n$/.exec((await contentOf(join(repository, 'HEAD'))) ?? '')?.[1];
  if (name === undefined || !validFullRef(name)) return null;
  const oid = await readRefFile(repository, name);
  return oid ? { name, oid } : null;
};

/** Returns whether the ref has a file of its own. Packed refs have none. */
export const hasRefFile = async (repository: string, ref: string): Promise<boolean> =>
  (await statOf(join(repository, ref)))?.isFile() ?? false;

const looseRefs = async (repository: string, prefix: string): Promise<Map<string, string> | null> => {
  const found = new Map<string, string>();
  const folders = [prefix];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await readdir(join(repository, folder), { withFileTypes: true }).catch((error: unknown) => {
      if (isGone(error)) return null;
      throw error;
    });
    if (entries === null && folder === prefix) return null;
    for (const entry of entries ?? []) {
      const name = folder + entry.name;
      if (entry.isDirectory()) folders.push(`${name}/`);
      else if (!name.endsWith('.lock')) {
        const content = await contentOf(join(repository, name));
        if (content === null) continue; // packed or deleted since
        if (found.size >= MAX_LOOSE || !OID_LINE.test(content) || !validFullRef(name)) return null;
        found.set(name, content.trimEnd());
      }
    }
  }
  return found;
};

const packedRefs = (content: string | null, prefix: string): Ref[] | null => {
  if (content === null) return [];
  if (!/^# pack-refs with:[^\n]* sorted /.test(content)) return null;
  const refs: Ref[] = [];
  const first = content.indexOf(` ${prefix}`);
  for (let at = content.lastIndexOf('\n', first) + 1; first >= 0 && at < content.length; ) {
    const end = content.indexOf('\n', at);
    if (end < 0) return null;
    const space = content.indexOf(' ', at);
    // Lines with `^` hold the object that the tag above them points at.
    if (content.charCodeAt(at) !== 0x5e) {
      if (!content.startsWith(prefix, space + 1)) break;
      const oid = content.slice(at, space);
      refs.push({ name: content.slice(space + 1, end), oid, peeledOid: oid, message: null });
    }
    at = end + 1;
  }
  return refs;
};

/** Merges the refs. A file takes precedence over a packed ref of the same name. */
const merged = (packed: readonly Ref[], loose: ReadonlyMap<string, string>): Ref[] => {
  const files = [...loose]
    .map(([name, oid]) => ({ name, oid, peeledOid: oid, message: null, bytes: Buffer.from(name) }))
    .sort((left, right) => Buffer.compare(left.bytes, right.bytes));
  const all: Ref[] = [];
  let from = 0;
  for (const { bytes, ...ref } of files) {
    const to = placeOf(packed, bytes);
    for (const before of packed.slice(from, to)) all.push(before);
    from = to;
    if (packed[from]?.name === ref.name) from += 1;
    all.push(ref);
  }
  return all.concat(packed.slice(from));
};

const placeOf = (refs: readonly Ref[], name: Buffer): number => {
  let [low, high] = [0, refs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Buffer.compare(Buffer.from(refs[middle]?.name ?? ''), name) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
};

const contentOf = async (path: string): Promise<string | null> => {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
};

const isFolder = async (path: string): Promise<boolean> => (await statOf(path))?.isDirectory() ?? false;

/** Null if there is nothing. */
const statOf = async (path: string) => {
  try {
    return await stat(path);
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
};

const isGone = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  (error.code === 'ENOENT' || error.code === 'ENOTDIR' || error.code === 'EISDIR');
