import { GitError } from '../git-error.ts';
import type { Runner } from '../process/runner.ts';
import { requireOids } from '../ref-names.ts';
import type { Git } from '../types.ts';
import type { LinearHistory } from './linear-history.ts';

type AncestryFunctions = Pick<Git, 'containedIn' | 'isAncestor' | 'mergeCommitOf'>;

/** Limit for the ids of commits that the target lacks. If there are more, all branches are checked instead. */
const MAX_OUTPUT_BYTES = 512 * 1024;
/** The newest merges of a branch among which the merge of a commit is searched. */
const MAX_MERGES = 1_000;

export const createAncestry = (runner: Runner, linear: LinearHistory): AncestryFunctions => {
  // Results never become stale: a commit id depends on the content of the commit, including its parents.
  const contained = runner.caches.create<string, boolean>({ name: 'contained commits', limit: 20_000 });

  /**
   * Returns the tips of all branches merged into the target. Caches nothing about other branches, because they may
   * move.
   */
  const mergedTips = async (path: string, targetOid: string): Promise<ReadonlySet<string>> => {
    const args = ['for-each-ref', `--merged=${targetOid}`, '--format=%(objectname)', '--', 'refs/heads/'];
    return new Set(lines((await runner.run(path, args)).stdout));
  };

  const isAncestor = async (path: string, ancestorOid: string, descendantOid: string): Promise<boolean> => {
    requireOids([ancestorOid, descendantOid]);
    const near = await linear.isAncestor(path, ancestorOid, descendantOid);
    if (near !== undefined) return near;
    const args = ['merge-base', '--is-ancestor', ancestorOid, descendantOid];
    return (await runner.run(path, args, { allow: [1] })).exitCode === 0;
  };

  return {
    isAncestor,

    async containedIn(path, targetOid, oids) {
      requireOids([targetOid, ...oids]);
      const keyOf = (oid: string) => `${path} ${targetOid} ${oid}`;
      const known = new Map(oids.map((oid) => [oid, oid === targetOid || contained.get(keyOf(oid))]));
      const unknown = [...known.keys()].filter((oid) => known.get(oid) === undefined);
      if (unknown.length > 0) {
        // Lists the commits that the target does not reach, including unreached tips themselves.
        const input = `^${targetOid}\n${unknown.join('\n')}\n`;
        const outside = await runner
          .run(path, ['rev-list', '--stdin'], { input, maxOutputBytes: MAX_OUTPUT_BYTES })
          .then(
            ({ stdout }) => new Set(lines(stdout)),
            (error: unknown) => {
              if (error instanceof GitError && error.reason === 'too_large') return null;
              throw error;
            },
          );
        if (outside === null) {
          const merged = await mergedTips(path, targetOid);
          return new Set(oids.filter((oid) => oid === targetOid || merged.has(oid)));
        }
        for (const oid of unknown) {
          known.set(oid, !outside.has(oid));
          contained.set(keyOf(oid), !outside.has(oid));
        }
      }
      return new Set(oids.filter((oid) => known.get(oid)));
    },

    async mergeCommitOf(path, targetOid, oid) {
      requireOids([targetOid, oid]);
      const count = `--max-count=${MAX_MERGES}`;
      const args = ['rev-list', '--first-parent', '--merges', '--parents', count, targetOid, `^${oid}`];
      const merges = lines((await runner.run(path, args)).stdout).map((line) => line.split(' '));
      // Newest first: those before the merge in question contain the commit, those after it do not.
      let [containing, others] = [-1, merges.length];
      while (others - containing > 1) {
        const middle = Math.floor((containing + others) / 2);
        const [merge = ''] = merges[middle] ?? [];
        if (await isAncestor(path, oid, merge)) containing = middle;
        else others = middle;
      }
      const [merge, firstParent] = merges[containing] ?? [];
      if (merge === undefined || firstParent === undefined) return null;
      return (await isAncestor(path, oid, firstParent)) ? null : merge;
    },
  };
};

const lines = (output: Buffer): string[] => {
  const text = output.toString('utf8');
  return text === '' ? [] : text.replace(/\n$/, '').split('\n');
};
