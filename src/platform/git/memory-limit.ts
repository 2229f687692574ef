import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** What a git process may take of its own, beside the part that grows with the repository. In MiB. */
export const DEFAULT_MEMORY_MIB = 192;

/**
 * An index holds some 30 bytes for each object. git takes up to 200 to count, walk and pack it: a limit that large
 * repositories could not live with would be none.
 */
const BYTES_PER_INDEX_BYTE = 8;
const MAX_REMEMBERED = 2_000;

/**
 * What keeps an honest git well below its limit: threads that each have a window of deltas and a stack, and caches whose
 * defaults suit a machine with one user.
 */
export const FRUGAL: readonly string[] = [
  'pack.threads=2',
  'pack.windowMemory=32m',
  'pack.deltaCacheSize=32m',
  'core.deltaBaseCacheLimit=32m',
];

/** Tells how many bytes of memory a process may take that works on the repository in `directory`. */
export const createAllowance = (memoryMiB: number): ((directory: string | null) => number) => {
  const remembered = new Map<string, { readonly changedAt: number; readonly bytes: number }>();
  const indexBytes = (directory: string): number => {
    const packs = join(directory, 'objects', 'pack');
    const changedAt = statSync(packs, { throwIfNoEntry: false })?.mtimeMs;
    if (changedAt === undefined) return 0;
    const known = remembered.get(directory);
    if (known?.changedAt === changedAt) return known.bytes;
    let bytes = 0;
    for (const name of readdirSync(packs)) {
      if (name.endsWith('.idx')) bytes += statSync(join(packs, name), { throwIfNoEntry: false })?.size ?? 0;
    }
    const [oldest] = remembered.keys();
    if (oldest !== undefined && remembered.size >= MAX_REMEMBERED) remembered.delete(oldest);
    remembered.set(directory, { changedAt, bytes });
    return bytes;
  };
  return (directory) =>
    memoryMiB * 1024 * 1024 + (directory === null ? 0 : indexBytes(directory) * BYTES_PER_INDEX_BYTE);
};

/**
 * The command that runs `file` with at most so many bytes of memory of its own, which what it starts inherits: allocations
 * beyond fail. Files that are mapped to be read do not count. The shell replaces itself, so no process is added; where the
 * system knows no such limit, none is set.
 */
export const limited = (
  file: string,
  args: readonly string[],
  bytes: number,
): { readonly file: string; readonly args: readonly string[] } => ({
  file: '/bin/sh',
  args: ['-c', 'ulimit -d "$0" 2>/dev/null; exec "$@"', String(Math.ceil(bytes / 1024)), file, ...args],
});

/** Whether git says that it ended for lack of memory. */
export const isOutOfMemory = (stderr: string): boolean => /out of memory|cannot allocate memory/i.test(stderr);
