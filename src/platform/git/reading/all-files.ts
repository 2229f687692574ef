import type { ObjectReader } from '../objects/reader.ts';
import { isTree, textOf, typeOf } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import type { FileEntry } from '../objects.ts';
import type { Runner } from '../process/runner.ts';
import { splitRecords } from '../process/split-records.ts';
import { requireOids, validOid } from '../ref-names.ts';
import type { Git } from '../types.ts';

type AllFiles = Pick<Git, 'allFiles' | 'readBeginning'>;

/** Above these numbers, one git process is faster than reading the trees and sizes one by one. */
const MAX_TREES = 10;
const MAX_FILES = 50;

export const createAllFiles = (runner: Runner, objects: ObjectReader, trees: TreeReader): AllFiles => {
  /** Returns the files of a small tree in git's order, without starting git. Returns null if only git can list them. */
  const fewFiles = async (path: string, treeish: string): Promise<FileEntry[] | null> => {
    const files: Omit<FileEntry, 'size'>[] = [];
    let read = 0;
    const walk = async (oid: string, folder: string): Promise<boolean> => {
      read += 1;
      const entries = read > MAX_TREES ? null : await trees.usual(path, oid);
      for (const entry of entries ?? []) {
        const name = `${folder}${textOf(entry.name)}`;
        if (isTree(entry)) {
          if (!(await walk(entry.oid, `${name}/`))) return false;
        } else if (typeOf(entry) === 'blob') {
          if (files.length === MAX_FILES) return false;
          files.push({ mode: entry.mode, oid: entry.oid, path: name });
        }
      }
      return entries !== null;
    };
    if (!(await walk(treeish, ''))) return null;
    const sized = await Promise.all(
      files.map(async (file) => {
        const blob = await objects.read(path, 'info', file.oid);
        return blob ? [{ ...file, size: blob.size }] : [];
      }),
    );
    const all = sized.flat();
    return all.length === files.length ? all : null;
  };

  return {
    async *allFiles(path, treeish, options = {}) {
      requireOids([treeish]);
      const few = await fewFiles(path, treeish);
      if (few) return yield* few;
      const output = runner.stream(path, ['ls-tree', '-r', '-l', '-z', '--full-tree', treeish], options);
      for await (const record of splitRecords(output, 0)) {
        const match = /^(\d{6}) blob ([0-9a-f]+) +(\d+)\t([\s\S]+)$/.exec(record.toString('utf8'));
        if (!match) continue;
        const [, mode = '', oid = '', size = '', name = ''] = match;
        yield { mode, oid, size: Number(size), path: name };
      }
    },

    async readBeginning(path, oid, bytes) {
      if (!validOid(oid)) return null;
      return (await objects.read(path, 'contents', oid))?.content.subarray(0, bytes) ?? null;
    },
  };
};
