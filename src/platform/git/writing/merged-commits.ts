import { GitError } from '../git-error.ts';
import { createNewObjects } from '../objects/new-objects.ts';
import type { ObjectReader } from '../objects/reader.ts';
import { type Runner, readOid } from '../process/runner.ts';
import type { LinearHistory } from '../reading/linear-history.ts';
import { requireOids } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { identityEnv } from './identity.ts';
import { inQuarantine } from './quarantine.ts';

/** Creates cherry-picks and reverts: commits that apply the changes between two commits on top of a third. */
export const createMergedCommits =
  (runner: Runner, objects: ObjectReader): Git['applyChange'] =>
  async (path, { base, changed, onto, message, author, committer }, judge) => {
    requireOids([base ?? onto, changed ?? onto, onto]);
    return inQuarantine(runner, path, async ({ env, forget, discard }) => {
      const signed = { ...env, ...identityEnv('AUTHOR', author), ...identityEnv('COMMITTER', committer) };
      const commit = (tree: string, parents: readonly string[], text = '') =>
        readOid(runner, path, ['commit-tree', ...parents.flatMap((oid) => ['-p', oid]), '-F', '-', tree], {
          input: text,
          env: signed,
        });
      const failed = (reason: 'conflict' | 'empty') => {
        discard();
        return { failed: reason };
      };
      // `merge-tree` finds the merge base itself (and only accepts a given one since 2.40). So we create two commits
      // with the base as their only parent.
      const treeOf = async (oid: string | null) =>
        oid === null ? readOid(runner, path, ['mktree'], { input: '', env }) : `${oid}^{tree}`;
      const root = await commit(await treeOf(base), []);
      const [ours, theirs] = await Promise.all([
        commit(await treeOf(onto), [root], 'ours'),
        commit(await treeOf(changed), [root], 'theirs'),
      ]);
      const tree = await mergedTree(runner, path, [ours, theirs], env);
      if (tree === null) return failed('conflict');
      const now = await readOid(runner, path, ['rev-parse', '--verify', '--end-of-options', `${onto}^{tree}`], { env });
      if (tree === now) return failed('empty');
      await forget([root, ours, theirs]);
      const oid = await commit(tree, [onto], message);
      await judge?.(oid, createNewObjects(runner, objects, path, env));
      return { oid };
    });
  };

/** Creates the commits that merge a branch into another. */
export const createMerges =
  (runner: Runner, objects: ObjectReader, linear: LinearHistory): Git['mergeCommits'] =>
  async (path, { ours, theirs, tree: known, squash, merge }, judge) => {
    requireOids([ours, theirs, known ?? ours]);
    return inQuarantine(runner, path, async ({ env, discard }) => {
      const merged = async () => {
        // A branch that is only ahead brings all its files.
        if (await linear.isAncestor(path, ours, theirs)) {
          const tree = await objects.read(path, 'info', `${theirs}^{tree}`);
          if (tree) return tree.oid;
        }
        return mergedTree(runner, path, [ours, theirs], env).catch(async (error: unknown) => {
          // git refuses to merge commits without a common ancestor. Rare, so this is found out afterwards.
          const base = await runner.run(path, ['merge-base', ours, theirs], { env, allow: [1] });
          if (base.exitCode === 1) return null;
          throw error;
        });
      };
      const tree = known ?? (await merged());
      if (tree === null) {
        discard();
        return { failed: 'conflict' };
      }
      const commit = ({ message, author, committer }: NonNullable<typeof merge>, parents: readonly string[]) =>
        readOid(runner, path, ['commit-tree', ...parents.flatMap((oid) => ['-p', oid]), '-F', '-', tree], {
          input: message,
          env: { ...env, ...identityEnv('AUTHOR', author), ...identityEnv('COMMITTER', committer) },
        });
      const squashOid = squash ? await commit(squash, [ours]) : null;
      const landed = squashOid ?? theirs;
      const oid = merge ? await commit(merge, [ours, landed]) : landed;
      await judge?.(oid, createNewObjects(runner, objects, path, env, { branchesOnly: true }));
      return { oid, squashOid };
    });
  };

/** Merges two commits with a common ancestor. Returns the merged tree, or null if they changed the same lines. */
export const mergedTree = async (
  runner: Runner,
  path: string,
  [ours, theirs]: readonly [string, string],
  env: Readonly<Record<string, string>>,
): Promise<string | null> => {
  const args = ['merge-tree', '--write-tree', '-z', '--no-messages', '--end-of-options', ours, theirs];
  const { stdout, exitCode } = await runner.run(path, args, { env, allow: [1] });
  const [tree = ''] = stdout.toString('latin1').split('\0', 1);
  // git prints a tree for a conflict too, but none if it does not find one of the commits.
  if (tree === '') throw new GitError('failed', 'The commits could not be read');
  return exitCode === 1 ? null : tree;
};
