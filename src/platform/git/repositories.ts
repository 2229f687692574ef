import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { mapLimit } from '../concurrency/map-limit.ts';
import { syncPath, writeOnce } from '../files/durable.ts';
import { GitError } from './git-error.ts';
import { HOME, type Runner } from './process/runner.ts';
import { validRefName } from './ref-names.ts';
import type { Git } from './types.ts';

type RepositoryFunctions = Pick<
  Git,
  'init' | 'remove' | 'exists' | 'claim' | 'stored' | 'changedAt' | 'diskSize' | 'pack' | 'gc'
>;

/** A folder of loose objects, or of packs. */
const OBJECT_FOLDER = /^(?:[0-9a-f]{2}|pack)$/;
const FILES_AT_ONCE = 4;
const GC_TIMEOUT_MS = 2 * 60 * 60_000;

export const createRepositories = (runner: Runner, forget: (path: string) => void): RepositoryFunctions => {
  const exists = async (path: string): Promise<boolean> => {
    const head = join(runner.directory(path), 'HEAD');
    return (await unlessAbsent(stat(head))) !== null;
  };

  return {
    exists,

    async init(path, defaultBranch) {
      if (!validRefName(defaultBranch)) throw new GitError('invalid', 'The branch name is not valid');
      const target = runner.directory(path);
      if (await exists(path)) return;
      await mkdir(dirname(target), { recursive: true });
      // Built at a temporary path and moved, so that a repository is either complete or absent.
      const fresh = runner.directory(incomingPath(path));
      try {
        await writeEmpty(fresh, await configIn(runner), defaultBranch, runner.durable);
        await rename(fresh, target);
        if (runner.durable) await syncPath(dirname(target));
      } catch (error) {
        await rm(fresh, { recursive: true, force: true });
        if (await exists(path)) return; // another process was first
        throw error;
      }
    },

    async remove(path) {
      forget(path);
      await rm(runner.directory(path), { recursive: true, force: true });
      await removeIncoming(runner, path);
    },

    async claim(owner) {
      return (await writeOnce(join(runner.root, '.owner'), Buffer.from(owner))).toString('utf8') === owner;
    },

    async stored(folder) {
      const found: string[] = [];
      const walk = async (inside: string): Promise<void> => {
        const entries = (await unlessAbsent(readdir(join(runner.root, inside), { withFileTypes: true }))) ?? [];
        for (const entry of entries) {
          const path = `${inside}/${entry.name}`;
          if (!entry.isDirectory()) continue;
          if (path.endsWith('.git')) found.push(path);
          else await walk(path);
        }
      };
      await walk(folder);
      return found;
    },

    async changedAt(path) {
      return (await unlessAbsent(stat(runner.directory(path))))?.mtime ?? null;
    },

    async diskSize(path) {
      const objects = join(runner.directory(path), 'objects');
      const folders = await unlessAbsent(readdir(objects));
      if (folders === null) throw new GitError('missing', 'The repository does not exist');
      const files = await mapLimit(
        folders.filter((name) => OBJECT_FOLDER.test(name)),
        FILES_AT_ONCE,
        async (name) =>
          ((await unlessAbsent(readdir(join(objects, name)))) ?? []).map((file) => join(objects, name, file)),
      );
      // Housekeeping may remove a file meanwhile.
      const sizes = await mapLimit(
        files.flat(),
        FILES_AT_ONCE,
        async (file) => (await unlessAbsent(stat(file)))?.size ?? 0,
      );
      return sizes.reduce((sum, size) => sum + size, 0);
    },

    async pack(path, { signal, timeoutMs = GC_TIMEOUT_MS } = {}) {
      const options = { signal, timeoutMs };
      await runner.run(path, ['repack', '-d', '--geometric=2', '-q'], options);
      await runner.run(path, ['commit-graph', 'write', '--reachable', '--split', '--no-progress'], options);
      await runner.run(path, ['pack-refs', '--all'], options);
    },

    async gc(path, { signal, timeoutMs = GC_TIMEOUT_MS } = {}) {
      await runner.run(path, ['gc', '--quiet', '--prune=2.weeks.ago'], { signal, timeoutMs });
    },
  };
};

/** The same as `git init --bare --template=` (gitrepository-layout), without starting git. */
const writeEmpty = async (folder: string, config: string, defaultBranch: string, flush: boolean): Promise<void> => {
  for (const each of ['objects/info', 'objects/pack', 'refs/heads', 'refs/tags']) {
    await mkdir(join(folder, each), { recursive: true });
  }
  await writeFile(join(folder, 'config'), config, { flush });
  await writeFile(join(folder, 'HEAD'), `ref: refs/heads/${defaultBranch}\n`, { flush });
};

const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n';

/** Returns the configuration of a repository. Like git, it says whether the file system ignores case. */
const configIn = async (runner: Runner): Promise<string> => {
  const ignoresCase = (await unlessAbsent(stat(join(runner.root, HOME.toUpperCase())))) !== null;
  return `${CONFIG}${ignoresCase ? '\tignorecase = true\n' : ''}`;
};

/** Returns a temporary path next to a repository, for one that is being built. */
export const incomingPath = (path: string): string => `${path.slice(0, -'.git'.length)}.incoming-${randomUUID()}.git`;

/**
 * Removes what a killed import left next to a repository. An import that is still running fails, because only one can
 * win.
 */
export const removeIncoming = async (runner: Runner, path: string): Promise<void> => {
  const target = runner.directory(path);
  const folder = dirname(target);
  const prefix = `${basename(target, '.git')}.incoming-`;
  const names = (await unlessAbsent(readdir(folder))) ?? [];
  for (const name of names) {
    if (name.startsWith(prefix)) await rm(join(folder, name), { recursive: true, force: true });
  }
};

const unlessAbsent = async <T>(call: Promise<T>): Promise<T | null> => {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return null;
    throw error;
  }
};
