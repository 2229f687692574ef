import { createHash } from 'node:crypto';
import { EMPTY_TREE } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import type { Runner } from '../process/runner.ts';
import { splitLines } from '../process/split-lines.ts';
import { splitRecords } from '../process/split-records.ts';
import type { GitReading } from '../reading.ts';
import { requireOids } from '../ref-names.ts';
import { fewChanges } from './tree-changes.ts';

const TIMEOUT_MS = 30_000;

const FLAGS = ['diff-tree', '-r', '--no-renames', '--no-color', '--no-ext-diff', '--no-textconv'];
const PATCH_FLAGS = [...FLAGS, '-p', '--full-index', '--no-indent-heuristic', '--submodule=short', '-U3'];

/** Reads what differs between two commits without keeping the difference in memory. */
export const createChangesBetween = (
  runner: Runner,
  trees: TreeReader,
): Pick<GitReading, 'changedPaths' | 'patchId'> => {
  const stream = (flags: readonly string[], path: string, from: string | null, to: string, signal?: AbortSignal) => {
    const oids = [from ?? EMPTY_TREE, to];
    requireOids(oids);
    return runner.stream(path, [...flags, ...oids], { signal, timeoutMs: TIMEOUT_MS });
  };

  return {
    async *changedPaths(path, from, to, { signal } = {}) {
      const few = await fewChanges(trees, path, from, to);
      if (few) return yield* [...few.added, ...few.modified, ...few.removed];
      const source = stream([...FLAGS, '--name-only', '-z'], path, from, to, signal);
      for await (const name of splitRecords(source, 0)) yield name.toString('utf8');
    },

    async patchId(path, from, to, { signal } = {}) {
      const hash = createHash('sha256');
      let isEmpty = true;
      let index: Buffer | null = null;
      for await (const { bytes, begins } of splitLines(stream(PATCH_FLAGS, path, from, to, signal))) {
        isEmpty = false;
        // The lines of files begin with a space, a sign or a backslash, so these are lines of git.
        if (begins && bytes.toString('latin1', 0, 6) === 'index ') {
          index = Buffer.from(bytes);
          continue;
        }
        // Where a change is may move. Only the names of the objects show whether a binary file changed.
        if (begins && bytes[0] === 0x40) continue;
        if (begins && index && bytes.toString('latin1', 0, 13) === 'Binary files ') hash.update(index);
        hash.update(bytes);
      }
      return isEmpty ? null : hash.digest('hex');
    },
  };
};
