import type { Runner } from '../process/runner.ts';
import { validOid } from '../ref-names.ts';
import type { ObjectReader } from './reader.ts';
import { EMPTY_TREE, nameOf, parseTree, type RawEntry, TREE_MODE } from './tree.ts';

/** Reads trees through the processes that stay open, without starting one. */
export interface TreeReader {
  /** Returns the entries of a tree, or of the root of a commit, or null if it does not exist. */
  entries(path: string, treeish: string): Promise<readonly RawEntry[] | null>;
  /**
   * Returns the entries of a tree of moderate size whose entries are all as git itself writes them. Otherwise null: then
   * only git knows how it takes them.
   */
  usual(path: string, treeish: string): Promise<readonly RawEntry[] | null>;
  /** Returns the entries at paths from the root of a tree or commit. Leaves out paths without an entry. */
  find(path: string, treeish: string, filePaths: readonly string[]): Promise<ReadonlyMap<string, RawEntry>>;
}

const MAX_USUAL_BYTES = 128 * 1024;
const USUAL_MODES: ReadonlySet<string> = new Set(['100644', '100755', '120000', '160000', TREE_MODE]);

export const createTreeReader = (runner: Runner, objects: Pick<ObjectReader, 'read'>): TreeReader => {
  const entries: TreeReader['entries'] = async (path, treeish) => {
    if (!validOid(treeish)) return null;
    const tree = await objects.read(path, 'contents', `${treeish}^{tree}`);
    if (tree === null) return null;
    if (tree.content.length === tree.size) return parseTree(tree.content);
    // Longer than the limit of the open processes.
    return parseTree((await runner.run(path, ['cat-file', 'tree', tree.oid])).stdout);
  };

  return {
    entries,

    async usual(path, treeish) {
      const tree = validOid(treeish) ? await objects.read(path, 'contents', `${treeish}^{tree}`) : null;
      if (tree === null || tree.size > MAX_USUAL_BYTES) return null;
      const found = parseTree(tree.content);
      return found.every(({ mode, oid }) => USUAL_MODES.has(mode) && oid !== EMPTY_TREE) ? found : null;
    },

    async find(path, treeish, filePaths) {
      const folders = new Map<string, Promise<ReadonlyMap<string, RawEntry> | null>>();
      const folder = (name: string): Promise<ReadonlyMap<string, RawEntry> | null> => {
        let found = folders.get(name);
        if (!found) {
          found = read(name);
          folders.set(name, found);
        }
        return found;
      };
      const read = async (name: string) => {
        const entry = name === '' ? { mode: TREE_MODE, oid: treeish } : await entryAt(name);
        // A file has nothing below it, and reading it as a tree would read its content.
        const list = entry?.mode === TREE_MODE ? await entries(path, entry.oid) : null;
        return list && new Map(list.map((each) => [each.name, each]));
      };
      const entryAt = async (filePath: string): Promise<RawEntry | undefined> => {
        const slash = filePath.lastIndexOf('/');
        const inside = await folder(slash === -1 ? '' : filePath.slice(0, slash));
        return inside?.get(nameOf(filePath.slice(slash + 1)));
      };
      const found = new Map<string, RawEntry>();
      await Promise.all(
        filePaths.map(async (filePath) => {
          const entry = await entryAt(filePath);
          if (entry) found.set(filePath, entry);
        }),
      );
      return found;
    },
  };
};
