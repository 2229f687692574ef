import { rename, rm } from 'node:fs/promises';
import { GitError } from './git-error.ts';
import { isOutOfMemory } from './memory-limit.ts';
import type { Runner } from './process.ts';
import { shortName, validRefName } from './ref-names.ts';
import { transaction } from './refs.ts';
import { incomingPath, removeIncoming } from './repositories.ts';
import { STRICT } from './smart-http.ts';
import { tipBeyond } from './tree-sizes.ts';
import type { CallOptions, FetchedBundle } from './types.ts';

// Repositories that come as a whole: from a bundle, from another server, from a fork's source. Each is made aside and put
// in its place when it is complete, so that a half one is never served.

export interface NamedObject {
  readonly name: string;
  readonly oid: string;
}

/**
 * Has the repository made at a path of its own, which then takes the place of whatever stands at `path`; `forget` ends the
 * processes that are kept open for that.
 */
export const buildAside = async <T>(
  runner: Runner,
  forget: (path: string) => void,
  path: string,
  build: (fresh: string) => Promise<T>,
): Promise<T> => {
  await removeIncoming(runner, path);
  const fresh = incomingPath(path);
  try {
    const result = await build(fresh);
    await moveInto(runner, forget, fresh, path);
    return result;
  } finally {
    await rm(runner.directory(fresh), { recursive: true, force: true });
  }
};

export interface PackLimits extends CallOptions {
  /** 0 is unlimited. */
  readonly maxBytes: number;
  /** Most files and folders of a branch or tag; 0 is unlimited. */
  readonly maxFiles?: number | undefined;
}

/**
 * Takes the objects of a pack, checks them, and sets the refs. `what` begins the message of a failure that is the pack's
 * fault, such as `The repository bundle`.
 */
export const takePack = async (
  runner: Runner,
  path: string,
  pack: AsyncIterable<Buffer>,
  refs: readonly NamedObject[],
  { maxBytes, maxFiles = 0, signal, timeoutMs }: PackLimits,
  what: string,
): Promise<void> => {
  // `git fetch` from a bundle checks objects only since git 2.46; index-pack always has, and finds what is missing too.
  const limit = maxBytes > 0 ? [`--max-input-size=${maxBytes}`] : [];
  await asBroken(
    what,
    runner.run(path, ['index-pack', '--stdin', STRICT, ...limit], { input: pack, signal, timeoutMs }),
  );
  if (maxFiles > 0) {
    const tips = refs.map(({ oid }) => oid);
    if ((await tipBeyond(runner, path, {}, tips, maxFiles, { signal })) !== null) {
      throw new GitError('too_large', `${what} is too large: a branch or tag holds more than ${maxFiles} files`);
    }
  }
  await asBroken(what, setRefs(runner, path, refs, signal));
};

/** Gives a fresh repository its refs. */
export const setRefs = async (
  runner: Runner,
  path: string,
  refs: readonly NamedObject[],
  signal: AbortSignal | undefined,
): Promise<void> => {
  const input = transaction(refs.map(({ name, oid }) => ({ ref: name, oldOid: null, newOid: oid })));
  // Written to disk for good by pack-refs, all at once.
  await runner.run(path, ['update-ref', '--stdin', '-z'], { input, signal, config: ['core.fsync=objects'] });
  await runner.run(path, ['pack-refs', '--all'], { signal });
};

export interface ChosenRefs {
  readonly refs: readonly NamedObject[];
  readonly defaultBranch: string | null;
  readonly summary: FetchedBundle;
}

/** Of the refs that somebody offers: branches and tags whose names can be here. `head` is the branch its HEAD names, where that is told. */
export const chooseRefs = (offered: readonly NamedObject[], head: string | null = null): ChosenRefs => {
  const taken = new Map<string, string>();
  const skipped: string[] = [];
  const others: NamedObject[] = [];
  let headOid: string | null = null;
  for (const { name, oid } of offered) {
    const short = shortName(name);
    if (name === 'HEAD') headOid ??= oid;
    else if (short === null) others.push({ name, oid });
    else if (!validRefName(short)) skipped.push(name);
    else if (!taken.has(name)) taken.set(name, oid);
  }
  const chosen = [...taken].map(([name, oid]) => ({ name, oid }));
  const branches = chosen.filter(({ name }) => name.startsWith('refs/heads/'));
  const named = head !== null && taken.has(`refs/heads/${head}`) ? head : null;
  const defaultBranch = named ?? suggestDefault(branches, headOid);
  return {
    refs: chosen,
    defaultBranch,
    summary: { branches: branches.length, tags: chosen.length - branches.length, skipped, others, defaultBranch },
  };
};

/** HEAD as an object id alone: the branch is one that stands there, by preference the usual ones. */
const suggestDefault = (branches: readonly NamedObject[], headOid: string | null): string | null => {
  const standing = branches
    .filter(({ oid }) => headOid === null || oid === headOid)
    .map(({ name }) => name.slice('refs/heads/'.length));
  const usual = ['main', 'master'].find((name) => standing.includes(name));
  if (usual !== undefined) return usual;
  return headOid !== null || standing.length === 1 ? (standing[0] ?? null) : null;
};

/** From here on a failure is the fault of what was sent, unless we gave up on it ourselves. */
const asBroken = async (what: string, call: Promise<unknown>): Promise<void> => {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    if (/exceeds maximum allowed size/.test(error.stderr))
      throw new GitError('too_large', `${what} is too large`, error);
    if (isOutOfMemory(error.stderr))
      throw new GitError(
        'too_large',
        `${what} holds an object that takes more memory than the hub gives to git`,
        error,
      );
    if (error.reason === 'failed' || error.reason === 'conflict') {
      throw new GitError('invalid', `${what} is broken: its objects or references are not valid`, error);
    }
    throw error;
  }
};

/** Puts the finished repository in its place; what stood there goes. */
const moveInto = async (runner: Runner, forget: (path: string) => void, fresh: string, path: string): Promise<void> => {
  const target = runner.directory(path);
  const old = runner.directory(incomingPath(path));
  forget(path);
  await rename(target, old).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rename(runner.directory(fresh), target);
  await rm(old, { recursive: true, force: true });
};
