import { rename, rm } from 'node:fs/promises';
import type { CallOptions } from '../call-options.ts';
import type { FetchedBundle } from '../cloning.ts';
import { GitError } from '../git-error.ts';
import { STRICT } from '../http/smart-http.ts';
import { tipBeyond } from '../objects/tree-sizes.ts';
import { isOutOfMemory } from '../process/memory-limit.ts';
import type { Runner } from '../process/runner.ts';
import { shortName, validRefName } from '../ref-names.ts';
import { transaction } from '../refs/refs.ts';
import { incomingPath, removeIncoming } from '../repositories.ts';

// Repositories that arrive as a whole: from a bundle, another server, or the source of a fork. Each is built at a
// temporary path and moved into place when it is complete, so that an incomplete one is never served.

export interface NamedObject {
  readonly name: string;
  readonly oid: string;
}

/**
 * Builds the repository at a temporary path and then replaces any repository at `path` with it. `forget` ends the
 * processes that are kept open for `path`.
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
  /** 0 means unlimited. */
  readonly maxBytes: number;
  /** The maximum number of files and folders of a branch or tag; 0 means unlimited. */
  readonly maxFiles?: number | undefined;
}

/**
 * Imports and checks the objects of a pack, and sets the refs. `what` starts the error message if the pack is at fault,
 * such as `The repository bundle`.
 */
export const takePack = async (
  runner: Runner,
  path: string,
  pack: AsyncIterable<Buffer>,
  refs: readonly NamedObject[],
  { maxBytes, maxFiles = 0, signal, timeoutMs }: PackLimits,
  what: string,
): Promise<void> => {
  // `git fetch` from a bundle only checks objects since git 2.46. index-pack always does, and also detects missing
  // objects.
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

/** Sets the refs of a new repository. */
export const setRefs = async (
  runner: Runner,
  path: string,
  refs: readonly NamedObject[],
  signal: AbortSignal | undefined,
): Promise<void> => {
  const input = transaction(refs.map(({ name, oid }) => ({ ref: name, oldOid: null, newOid: oid })));
  // pack-refs writes them to disk durably, all at once.
  await runner.run(path, ['update-ref', '--stdin', '-z'], { input, signal, config: ['core.fsync=objects'] });
  await runner.run(path, ['pack-refs', '--all'], { signal });
};

export interface ChosenRefs {
  readonly refs: readonly NamedObject[];
  readonly defaultBranch: string | null;
  readonly summary: FetchedBundle;
}

/**
 * Chooses the refs to import: branches and tags with valid names. `head` is the branch that the remote HEAD names, if
 * known.
 */
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

/** Chooses a default branch if HEAD is only an object id: a branch at that commit, preferably one with a usual name. */
const suggestDefault = (branches: readonly NamedObject[], headOid: string | null): string | null => {
  const standing = branches
    .filter(({ oid }) => headOid === null || oid === headOid)
    .map(({ name }) => name.slice('refs/heads/'.length));
  const usual = ['main', 'master'].find((name) => standing.includes(name));
  if (usual !== undefined) return usual;
  return headOid !== null || standing.length === 1 ? (standing[0] ?? null) : null;
};

/** Reports a failure as an error of the input, unless we aborted the call ourselves. */
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
        `${what} contains an object that needs more memory than the hub allows git`,
        error,
      );
    if (error.reason === 'failed' || error.reason === 'conflict') {
      throw new GitError('invalid', `${what} is broken: its objects or references are not valid`, error);
    }
    throw error;
  }
};

/** Moves the finished repository into place and deletes the previous one. */
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
