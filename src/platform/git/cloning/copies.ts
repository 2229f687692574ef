import { copyFile, link, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { mapLimit } from '../../concurrency/map-limit.ts';
import { codeOf } from '../../files/error-code.ts';
import { GitError } from '../git-error.ts';
import type { Runner } from '../process/runner.ts';
import { streamOf } from '../process/stream.ts';
import { requireOids, validRefName } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { buildAside, type NamedObject, setRefs, takePack } from './fresh-repository.ts';

const TIMEOUT_MS = 60 * 60_000;

export const createCopies = (
  runner: Runner,
  forget: (path: string) => void,
  git: Pick<Git, 'init'>,
): Pick<Git, 'copyRepository' | 'divergence'> => ({
  async divergence(own, other) {
    requireOids([own.oid, other.oid]);
    // For this call git sees the objects of both repositories.
    const env = { GIT_ALTERNATE_OBJECT_DIRECTORIES: join(runner.directory(other.path), 'objects') };
    const range = `${own.oid}...${other.oid}`;
    const { stdout } = await runner.run(own.path, ['rev-list', '--left-right', '--count', range], { env });
    const [ahead = 0, behind = 0] = stdout.toString('latin1').trim().split('\t').map(Number);
    return { ahead, behind };
  },

  async copyRepository(from, to, { branch = null, defaultBranch, signal, timeoutMs = TIMEOUT_MS }) {
    if (branch !== null && !validRefName(branch)) throw new GitError('invalid', 'The branch name is not valid');
    return buildAside(runner, forget, to, async (fresh) => {
      await git.init(fresh, branch ?? defaultBranch);
      // Refs first, so that the objects copied afterwards include everything that the refs name.
      const refs = await listRefs(runner, from, branch);
      if (branch !== null && refs.length === 0) throw new GitError('missing', 'The branch does not exist');
      if (branch === null) {
        await linkObjects(runner.directory(from), runner.directory(fresh), signal);
        await setRefs(runner, fresh, refs, signal);
      } else {
        const packing = runner.launch(from, ['pack-objects', '--quiet', '--revs', '--delta-base-offset', '--stdout'], {
          input: refs.map(({ oid }) => `${oid}\n`).join(''),
        });
        const pack = streamOf(packing, { signal, timeoutMs });
        await takePack(runner, fresh, pack, refs, { maxBytes: 0, signal, timeoutMs }, 'The repository');
      }
      return { branches: refs.filter(({ name }) => name.startsWith('refs/heads/')).length };
    });
  },
});

const listRefs = async (runner: Runner, path: string, branch: string | null): Promise<NamedObject[]> => {
  const wanted = branch === null ? ['refs/heads/', 'refs/tags/'] : [`refs/heads/${branch}`];
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', '--', ...wanted];
  const { stdout } = await runner.run(path, args);
  return (
    stdout
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => ({ oid: line.slice(0, line.indexOf(' ')), name: line.slice(line.indexOf(' ') + 1) }))
      // The pattern also matches refs below a folder of that name.
      .filter(({ name }) => branch === null || name === `refs/heads/${branch}`)
  );
};

const FOLDER = /^[0-9a-f]{2}$/;
const LOOSE = /^[0-9a-f]{38}$/;
const PACKED = /^pack-[0-9a-f]{40}\.(?:pack|idx|rev|mtimes)$/;
const MAX_TRIES = 20;
const AT_ONCE = 16;

/**
 * Gives `to` all objects of `from` as hard links, because git never changes a written object file. Packing or removing
 * one repository then does not affect the other, and there are no alternates. Links only object files, so nothing of a
 * running push.
 */
const linkObjects = async (from: string, to: string, signal: AbortSignal | undefined): Promise<void> => {
  const source = join(from, 'objects');
  const target = join(to, 'objects');
  // Packing moves loose objects into packs and merges packs. It always writes the new file before it deletes the old
  // one. So packs come last, and everything is repeated if the pack folder changed meanwhile.
  for (let tries = 1; ; tries++) {
    for (const folder of (await readdir(source)).filter((name) => FOLDER.test(name))) {
      signal?.throwIfAborted();
      const names = (await unlessGone(readdir(join(source, folder)))) ?? [];
      await mkdir(join(target, folder), { recursive: true });
      await linkAll(
        join(source, folder),
        join(target, folder),
        names.filter((name) => LOOSE.test(name)),
      );
    }
    const packs = join(source, 'pack');
    const before = await packsIn(packs);
    await mkdir(join(target, 'pack'), { recursive: true });
    const whole = await linkAll(packs, join(target, 'pack'), before);
    if (whole && before.join() === (await packsIn(packs)).join()) return;
    if (tries >= MAX_TRIES) throw new GitError('conflict', 'The repository kept changing while it was copied');
    signal?.throwIfAborted();
  }
};

const packsIn = async (folder: string): Promise<string[]> =>
  ((await unlessGone(readdir(folder))) ?? []).filter((name) => PACKED.test(name)).toSorted();

/** Returns false if a file no longer exists. */
const linkAll = async (from: string, to: string, names: readonly string[]): Promise<boolean> => {
  const done = await mapLimit(names, AT_ONCE, (name) => linkFile(join(from, name), join(to, name)));
  return done.every((each) => each);
};

const linkFile = async (from: string, to: string): Promise<boolean> => {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'EEXIST') return true; // linked by an earlier try
    if (code === 'ENOENT') return false;
    // The target is on another file system, or the file system supports no links or no more of them.
    return (await unlessGone(copyFile(from, to).then(() => true))) ?? false;
  }
};

const unlessGone = async <T>(call: Promise<T>): Promise<T | null> => {
  try {
    return await call;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
};
