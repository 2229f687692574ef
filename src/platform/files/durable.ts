import { randomUUID } from 'node:crypto';
import { link, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { StartError } from '../process/start-error.ts';
import { codeOf } from './error-code.ts';
import { exists } from './exists.ts';

/**
 * Writes the file, unless it exists. Returns what it holds. Of processes that call this at once, one writes the file and
 * all return the same. Nobody sees a file that is not complete, also after a crash.
 *
 * @throws StartError if the file system has no hard links
 */
export const writeOnce = async (path: string, bytes: Uint8Array): Promise<Buffer> => {
  if (!(await exists(path))) await create(path, bytes);
  await removeDrafts(path);
  return readFile(path);
};

const create = async (path: string, bytes: Uint8Array): Promise<void> => {
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, bytes, { flag: 'wx', mode: 0o600, flush: true });
    // Unlike a rename, this fails if the file exists.
    await link(draft, path);
    await syncPath(dirname(path));
  } catch (error) {
    if (NO_LINKS.has(codeOf(error))) {
      throw new StartError(
        `The folder ${dirname(path)} is on a file system without hard links. Choose another MILLRACE_DATA_DIR.`,
        { cause: error },
      );
    }
    // Another process was first, and may have removed this draft.
    if (!(await exists(path))) throw error;
  } finally {
    await rm(draft, { force: true });
  }
};

const NO_LINKS = new Set<unknown>(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

/** Removes what killed processes left beside a file that exists. */
const removeDrafts = async (path: string): Promise<void> => {
  const [folder, name] = [dirname(path), basename(path)];
  for (const found of await readdir(folder)) {
    if (found.startsWith(`${name}.`) && UUID.test(found.slice(name.length + 1)))
      await rm(join(folder, found), { force: true });
  }
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Writes the file, which replaces an existing one. Nobody sees a file that is not complete, also after a crash. Only one
 * process at a time may call this for a path.
 */
export const replaceFile = async (path: string, text: string): Promise<void> => {
  const draft = `${path}.draft`;
  await writeFile(draft, text, { mode: 0o600, flush: true });
  await rename(draft, path);
  await syncPath(dirname(path));
};

/** Waits until the content of a file, or the names in a folder, survive a power failure. */
export const syncPath = async (path: string): Promise<void> => {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};
