import { readFile, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';

const MEMORY = '/dev/shm';
/** About three times what a whole run needs. */
const NEEDED_BYTES = 3 * 2 ** 30;

/** Directories where earlier runs may have left files. */
export const temporaryRoots = (): string[] => [...new Set([tmpdir(), MEMORY])];

/**
 * Returns the directory for a run's database and repositories: in memory if the machine has enough, else the system's
 * directory for temporary files. A database has a thousand files, and copying them in memory takes a tenth of the time.
 */
export const temporaryRoot = async (): Promise<string> => ((await fitsInMemory()) ? MEMORY : tmpdir());

const fitsInMemory = async (): Promise<boolean> => {
  const mounts = await readFile('/proc/mounts', 'utf8').catch(() => '');
  const mount = mounts.split('\n').findLast((line) => line.split(' ')[1] === MEMORY);
  const [, , type, options = ''] = mount?.split(' ') ?? [];
  // Git has to run hooks from the repositories.
  if (type !== 'tmpfs' || options.split(',').includes('noexec')) return false;
  const { bavail, bsize } = await statfs(MEMORY);
  return Math.min(bavail * bsize, process.availableMemory()) > NEEDED_BYTES;
};
