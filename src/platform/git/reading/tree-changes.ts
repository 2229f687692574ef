import type { ChangedFiles, ChangedFilesDraft } from '../history.ts';
import { isTree, sortKey, textOf } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';

/** The changed files of a commit that are listed. */
export const MAX_FILES = 5_000;
/** Above this number of trees, one git process is faster than reading them one by one. */
const MAX_TREES = 200;

/**
 * Returns the files that differ between two trees (null for an empty one), like `git diff-tree -r --no-renames
 * --name-status`, without starting git. Returns null if a tree is missing or unusual, if they are more than `MAX_FILES`,
 * or if git is faster.
 */
export const fewChanges = async (
  trees: TreeReader,
  path: string,
  from: string | null,
  to: string | null,
): Promise<ChangedFiles | null> => {
  const changes: ChangedFilesDraft = { added: [], modified: [], removed: [] };
  let read = 0;
  let files = 0;
  const entriesOf = async (oid: string | null) => {
    if (oid === null) return [];
    read += 1;
    return trees.usual(path, oid);
  };
  /** Returns false if git has to do it. */
  const walk = async (left: string | null, right: string | null, folder: string): Promise<boolean> => {
    if (read > MAX_TREES) return false;
    const [before, after] = await Promise.all([entriesOf(left), entriesOf(right)]);
    if (before === null || after === null) return false;
    const olds = new Map(before.map((entry) => [sortKey(entry), entry]));
    const news = new Map(after.map((entry) => [sortKey(entry), entry]));
    for (const key of [...new Set([...olds.keys(), ...news.keys()])].sort(byCodeUnits)) {
      const [old, now] = [olds.get(key), news.get(key)];
      const either = now ?? old;
      if (!either || (old?.oid === now?.oid && old?.mode === now?.mode)) continue;
      const name = `${folder}${textOf(either.name)}`;
      if (isTree(either)) {
        if (!(await walk(old?.oid ?? null, now?.oid ?? null, `${name}/`))) return false;
      } else {
        files += 1;
        if (files > MAX_FILES) return false;
        changes[old ? (now ? 'modified' : 'removed') : 'added'].push(name);
      }
    }
    return true;
  };
  return (await walk(from, to, '')) ? changes : null;
};

const byCodeUnits = (left: string, right: string): number => (left < right ? -1 : 1);
