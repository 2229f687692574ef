import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { processKey } from '#platform/db/embedded-lock.ts';

// Caches the Postgres cluster with the migrated template database between runs, because creating it takes several
// seconds.

const ROOT = join(import.meta.dirname, '../..');
const CACHE = join(ROOT, '.cache');
const PREFIX = 'test-cluster-';
/** The parts of a copy. Everything else in the folder belongs to the running server. */
const PARTS = ['data', 'password'];

const copy = promisify(execFile);

/** Copies the cached cluster into the data directory. Returns false if none is cached for these migrations. */
export const restoreCluster = async (directory: string): Promise<boolean> => {
  const cached = await location();
  if (!existsSync(cached)) return false;
  const target = join(directory, 'postgres');
  await mkdir(target, { recursive: true, mode: 0o711 });
  // `cp` keeps the owner: if root runs the tests, the cluster belongs to the account that runs Postgres.
  await copy('cp', ['-a', ...PARTS.map((part) => join(cached, part)), target]);
  return true;
};

/** Caches the cluster of the data directory, whose server must have stopped, and deletes the copies it replaces. */
export const cacheCluster = async (directory: string): Promise<void> => {
  const source = join(directory, 'postgres');
  // The cluster is elsewhere if the account of Postgres cannot enter the directory. Such machines do without the cache.
  if (!PARTS.every((part) => existsSync(join(source, part)))) return;
  const cached = await location();
  const unfinished = `${cached}.${processKey()}`;
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  await copy('cp', ['-a', ...PARTS.map((part) => join(source, part)), unfinished]);
  // Another run may have been faster.
  await rename(unfinished, cached).catch(() => rm(unfinished, { recursive: true, force: true }));
  for (const name of await readdir(CACHE)) {
    const path = join(CACHE, name);
    if (name.startsWith(PREFIX) && path !== cached) await rm(path, { recursive: true, force: true });
  }
};

/** Returns the path of the copy, which is named after all that determines its content. */
const location = async (): Promise<string> => {
  const migrations = (await readdir(join(ROOT, 'migrations'))).toSorted().map((name) => join('migrations', name));
  const platform = (await readdir(join(ROOT, 'src/platform/db')))
    .filter((name) => name === 'migrate.ts' || name.startsWith('embedded'))
    .toSorted()
    .map((name) => join('src/platform/db', name));
  const hash = createHash('sha256').update(`${process.arch} ${process.getuid?.()}`);
  // package.json pins the versions of Postgres and graphile-worker.
  for (const path of ['package.json', ...platform, ...migrations]) {
    hash.update(`\0${path}\0`).update(await readFile(join(ROOT, path)));
  }
  return join(CACHE, `${PREFIX}${hash.digest('hex').slice(0, 16)}`);
};
