import { join } from 'node:path';
import { createNewObjects } from '../objects/new-objects.ts';
import type { ObjectReader } from '../objects/reader.ts';
import type { PlacedCommit } from '../objects.ts';
import { type Runner, readOid } from '../process/runner.ts';
import { requireOids } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { borrow } from './borrow.ts';
import { identityEnv } from './identity.ts';
import { mergedTree } from './merged-commits.ts';
import { inQuarantine, type Quarantine } from './quarantine.ts';

/** Merges and copies commits of another repository. */
export const createForeignMerges = (
  runner: Runner,
  objects: ObjectReader,
): Pick<Git, 'copyCommit' | 'mergeForeign' | 'mergesCleanly'> => {
  /** Runs `work` while git sees the objects of both repositories. */
  const inBoth = <T>(own: PlacedCommit, other: PlacedCommit, work: (both: Quarantine) => Promise<T>): Promise<T> => {
    requireOids([own.oid, other.oid]);
    return inQuarantine(runner, own.path, work, { alternates: [join(runner.directory(other.path), 'objects')] });
  };

  const contains = async (path: string, later: string, earlier: string, env: Quarantine['env']): Promise<boolean> =>
    (await runner.run(path, ['merge-base', '--is-ancestor', earlier, later], { env, allow: [1] })).exitCode === 0;

  const treeOfBoth = async (own: PlacedCommit, other: PlacedCommit, env: Quarantine['env']): Promise<string | null> => {
    const base = await runner.run(own.path, ['merge-base', own.oid, other.oid], { env, allow: [1] });
    return base.exitCode === 1 ? null : mergedTree(runner, own.path, [own.oid, other.oid], env);
  };

  return {
    mergeForeign: (own, other, { message, author, committer }, judge) =>
      inBoth(own, other, async ({ env, discard }) => {
        const { path } = own;
        if (await contains(path, own.oid, other.oid, env)) return { oid: own.oid };
        let { oid } = other;
        if (!(await contains(path, other.oid, own.oid, env))) {
          const tree = await treeOfBoth(own, other, env);
          if (tree === null) {
            discard();
            return { failed: 'conflict' };
          }
          oid = await readOid(runner, path, ['commit-tree', '-p', own.oid, '-p', other.oid, '-F', '-', tree], {
            input: message,
            env: { ...env, ...identityEnv('AUTHOR', author), ...identityEnv('COMMITTER', committer) },
          });
        }
        await borrow(runner, path, oid, env);
        await judge?.(oid, createNewObjects(runner, objects, path, env));
        return { oid };
      }),

    copyCommit: (path, other) =>
      inBoth({ path, oid: other.oid }, other, ({ env }) => borrow(runner, path, other.oid, env)),

    mergesCleanly: (own, other) =>
      inBoth(own, other, async ({ env, discard }) => {
        discard();
        return (await treeOfBoth(own, other, env)) !== null;
      }),
  };
};
