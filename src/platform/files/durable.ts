import { randomUUID } from 'node:crypto';
import { link, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from './error-code.ts';

/**
 * Writes the file, unless it exists. Returns what it holds. Of processes that call this at once, one writes the file and
 * all return the same. Nobody sees a file that is not complete, also after a crash.
 */
export const writeOnce = async (path: string, bytes: Uint8Array): Promise<Buffer> => {
  const draft = `${path}.${randomUUID()}`;
  try {
    return await readFile(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
  try {
    await writeFile(draft, bytes, { flag: 'wx', mode: 0o600, flush: true });
    // Unlike a rename, this fails if the file exists.
    await link(draft, path);
    await syncPath(dirname(path));
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  return readFile(path);
};

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
