import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Caches } from '../../cache.ts';

/** The memory that a git process may use itself, in MiB, in addition to a part that grows with the repository. */
export const DEFAULT_MEMORY_MIB = 192;

/**
 * An index holds about 30 bytes for each object. git uses up to 200 bytes per object to count, walk and pack. Without
 * this part, large repositories would exceed the limit.
 */
const BYTES_PER_INDEX_BYTE = 8;

/**
 * Settings that keep normal git usage well below the limit. They reduce threads, each of which has a delta window and a
 * stack, and caches whose defaults suit a single-user machine.
 */
export const FRUGAL: readonly string[] = [
  'pack.threads=2',
  'pack.windowMemory=32m',
  'pack.deltaCacheSize=32m',
  'core.deltaBaseCacheLimit=32m',
];

/** Returns a function that computes how many bytes of memory a process may use for the repository in `directory`. */
export const createAllowance = (memoryMiB: number, caches: Caches): ((directory: string | null) => number) => {
  const indexes = caches.create<string, { readonly changedAt: number; readonly bytes: number }>({
    name: 'sizes of git indexes',
    limit: 2_000,
  });
  const indexBytes = (directory: string): number => {
    const packs = join(directory, 'objects', 'pack');
    const changedAt = statSync(packs, { throwIfNoEntry: false })?.mtimeMs;
    if (changedAt === undefined) return 0;
    const known = indexes.get(directory);
    if (known?.changedAt === changedAt) return known.bytes;
    let bytes = 0;
    for (const name of readdirSync(packs)) {
      if (name.endsWith('.idx')) bytes += statSync(join(packs, name), { throwIfNoEntry: false })?.size ?? 0;
    }
    indexes.set(directory, { changedAt, bytes });
    return bytes;
  };
  return (directory) =>
    memoryMiB * 1024 * 1024 + (directory === null ? 0 : indexBytes(directory) * BYTES_PER_INDEX_BYTE);
};

/**
 * Returns the command that runs `file` with at most `bytes` of its own memory; further allocations fail. Child
 * processes inherit the limit. Files mapped for reading do not count. The shell replaces itself, so no process is
 * added. On systems without this limit the command runs without one.
 */
export const limited = (
  file: string,
  args: readonly string[],
  bytes: number,
): { readonly file: string; readonly args: readonly string[] } => ({
  file: '/bin/sh',
  args: ['-c', 'ulimit -d "$0" 2>/dev/null; exec "$@"', String(Math.ceil(bytes / 1024)), file, ...args],
});

/** Returns true if git reports that it ran out of memory. */
export const isOutOfMemory = (stderr: string): boolean => /out of memory|cannot allocate memory/i.test(stderr);
