import { parseCommit } from '../objects/commit.ts';
import type { ObjectReader } from '../objects/reader.ts';
import { nameOf, type RawEntry, TREE_MODE } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import type { Commit } from '../objects.ts';
import { isTreePath, validOid } from '../ref-names.ts';

/** Above this number of commits, one git process is faster than reading them one by one. */
export const MAX_LINE = 5;

/**
 * Answers questions about the last few commits of a branch without starting git, as long as each has a single parent.
 * Most questions are about these: what a push added, or how a branch differs from its target. All answers are those of
 * git, or `undefined` where only git could find out.
 */
export interface LinearHistory {
  /** Returns the commits that `from` reaches, or the newest `limit` of them, newest first. */
  until(path: string, from: string, limit?: number): Promise<readonly Commit[] | undefined>;
  /** Returns the commits that `from` reaches and none of `not` does, newest first. */
  between(path: string, from: string, not: readonly string[]): Promise<readonly Commit[] | undefined>;
  /** Returns the best common ancestor of two commits, or null if they have none. */
  mergeBase(path: string, one: string, other: string): Promise<string | null | undefined>;
  /** Returns true if `descendant` reaches `ancestor`, or is the same commit. */
  isAncestor(path: string, ancestor: string, descendant: string): Promise<boolean | undefined>;
  /** Returns the newest commit up to `from` that changed the file or folder, or null if it was never there. */
  lastChange(path: string, from: string, filePath: string): Promise<string | null | undefined>;
}

/** A commit and the ancestors that were read, newest first. Only the last may have several parents, or none. */
interface Read {
  readonly commits: readonly Commit[];
  /** Whether there are no further ancestors. */
  readonly isWhole: boolean;
}

/** Returns the commit, or null if the id is none of a commit here. */
export const readCommit = async (
  objects: Pick<ObjectReader, 'read'>,
  path: string,
  oid: string,
): Promise<Commit | null> => {
  // git resolves the object to a commit. Otherwise the id of a huge blob would be read just to find out its type.
  const object = validOid(oid) ? await objects.read(path, 'contents', `${oid}^{commit}`) : null;
  return object && parseCommit(object.oid, object.content);
};

export const createLinearHistory = (
  objects: Pick<ObjectReader, 'read'>,
  trees: Pick<TreeReader, 'usual'>,
): LinearHistory => {
  async function* walk(path: string, from: string): AsyncGenerator<Commit> {
    for (let oid: string | undefined = from, read = 0; oid !== undefined && read <= MAX_LINE; read++) {
      const commit = await readCommit(objects, path, oid);
      if (commit === null) return;
      yield commit;
      oid = commit.parent_ids.length === 1 ? commit.parent_ids[0] : undefined;
    }
  }

  /** Reads the line from a commit, and no further than a commit that `isEnd` accepts. */
  const read = async (path: string, from: string, isEnd: (commit: Commit) => boolean = () => false): Promise<Read> => {
    const commits: Commit[] = [];
    for await (const commit of walk(path, from)) {
      commits.push(commit);
      if (isEnd(commit)) break;
    }
    return { commits, isWhole: commits.at(-1)?.parent_ids.length === 0 };
  };

  /**
   * Returns where two lines meet: the commits of `from` before the first that is on both, and that commit. It is null if
   * they never meet.
   */
  const meet = async (path: string, from: string, other: string) => {
    const line = await read(path, from, ({ id }) => id === other);
    const { commits } = line;
    if (commits.at(-1)?.id === other) return { before: commits.slice(0, -1), common: other };
    const others = await read(path, other, ({ id }) => id === from);
    const ids = new Set(others.commits.map(({ id }) => id));
    const at = commits.findIndex(({ id }) => ids.has(id));
    const common = commits[at]?.id ?? null;
    if (common === null) return line.isWhole && others.isWhole ? { before: commits, common } : undefined;
    return { before: commits.slice(0, at), common };
  };

  const until: LinearHistory['until'] = async (path, from, limit = Number.POSITIVE_INFINITY) => {
    const { commits, isWhole } = await read(path, from);
    return isWhole || commits.length >= limit ? commits.slice(0, limit) : undefined;
  };

  /** Returns the entry at a path, null if there is none, or undefined if only git can read the trees on the way. */
  const entryAt = async (path: string, commit: string, filePath: string): Promise<RawEntry | null | undefined> => {
    let found: RawEntry = { mode: TREE_MODE, name: '', oid: commit };
    for (const segment of filePath.split('/')) {
      if (found.mode !== TREE_MODE) return null;
      const entries = await trees.usual(path, found.oid);
      if (entries === null) return undefined;
      const entry = entries.find(({ name }) => name === nameOf(segment));
      if (!entry) return null;
      found = entry;
    }
    return found;
  };

  return {
    until,

    async between(path, from, not) {
      let shortest: readonly Commit[] | undefined;
      for (const other of not) {
        const before = (await meet(path, from, other))?.before;
        if (before === undefined) return undefined;
        if (!shortest || before.length < shortest.length) shortest = before;
      }
      return shortest ?? until(path, from);
    },

    mergeBase: async (path, one, other) => (await meet(path, one, other))?.common,

    async isAncestor(path, ancestor, descendant) {
      const wanted = (await readCommit(objects, path, ancestor))?.id;
      const { commits, isWhole } = await read(path, descendant, ({ id }) => id === wanted);
      if (wanted !== undefined && commits.at(-1)?.id === wanted) return true;
      return isWhole && wanted !== undefined ? false : undefined;
    },

    async lastChange(path, from, filePath) {
      if (!isTreePath(filePath)) return undefined;
      let newer: { readonly commit: Commit; readonly entry: RawEntry | null } | null = null;
      for await (const commit of walk(path, from)) {
        const entry = await entryAt(path, commit.id, filePath);
        if (entry === undefined) return undefined;
        if (newer && (entry?.oid !== newer.entry?.oid || entry?.mode !== newer.entry?.mode)) return newer.commit.id;
        if (commit.parent_ids.length === 0) return entry === null ? null : commit.id;
        newer = { commit, entry };
      }
      return undefined;
    },
  };
};
