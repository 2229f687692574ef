import type { ChangedFiles, ChangedFilesDraft } from '../history.ts';
import { isTree, type RawEntry, sortKey, textOf } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';

/**
 * Returns the files that differ between two trees (null for an empty one), like `git diff-tree -r --no-renames
 * --name-status`. Returns null if more than `maxTrees` trees would have to be read.
 */
export const changedBetween = async (
  trees: TreeReader,
  path: string,
  from: string | null,
  to: string | null,
  limits: { readonly maxTrees: number; readonly maxFiles: number },
): Promise<ChangedFiles | null> => {
  const changes: ChangedFilesDraft = { added: [], modified: [], removed: [] };
  let read = 0;
  let files = 0;
  const entriesOf = async (oid: string | null): Promise<readonly RawEntry[]> => {
    if (oid === null) return [];
    read += 1;
    return (await trees.entries(path, oid)) ?? [];
  };
  const note = (kind: keyof ChangedFiles, name: string) => {
    files += 1;
    if (files <= limits.maxFiles) changes[kind].push(name);
  };
  const walk = async (left: string | null, right: string | null, folder: string): Promise<boolean> => {
    if (read > limits.maxTrees) return false;
    const [before, after] = await Promise.all([entriesOf(left), entriesOf(right)]);
    const olds = new Map(before.map((entry) => [sortKey(entry), entry]));
    const news = new Map(after.map((entry) => [sortKey(entry), entry]));
    for (const key of [...new Set([...olds.keys(), ...news.keys()])].sort(byCodeUnits)) {
      const [old, now] = [olds.get(key), news.get(key)];
      const either = now ?? old;
      if (!either || (old?.oid === now?.oid && old?.mode === now?.mode)) continue;
      const name = `${folder}${textOf(either.name)}`;
      if (isTree(either)) {
        if (!(await walk(old?.oid ?? null, now?.oid ?? null, `${name}/`))) return false;
      } else note(old ? (now ? 'modified' : 'removed') : 'added', name);
    }
    return true;
  };
  return (await walk(from, to, '')) ? changes : null;
};

const byCodeUnits = (left: string, right: string): number => (left < right ? -1 : 1);
