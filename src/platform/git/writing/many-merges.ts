import { GitError } from '../git-error.ts';
import type { Runner } from '../process/runner.ts';
import { requireOids } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { mergedTree } from './merged-commits.ts';
import { inQuarantine } from './quarantine.ts';

/** Merges per process. Each call can be aborted between two processes. */
const AT_ONCE = 100;
/** Limit for the commits that the target lacks, of all heads together: about 50,000. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

/** Answers questions about many branches with one target in few processes. */
export const createManyMerges = (runner: Runner): Pick<Git, 'mergeableInto' | 'commitsAhead'> => ({
  mergeableInto: async (path, ours, theirs, { signal } = {}) => {
    requireOids([ours, ...theirs]);
    return inQuarantine(runner, path, async ({ env, discard }) => {
      discard();
      const clean = new Set<string>();
      for (let at = 0; at < theirs.length; at += AT_ONCE) {
        signal?.throwIfAborted();
        const some = theirs.slice(at, at + AT_ONCE);
        for (const [i, isClean] of (await mergeAll(runner, path, ours, some, env)).entries()) {
          const oid = some[i];
          if (isClean && oid !== undefined) clean.add(oid);
        }
      }
      return clean;
    });
  },

  commitsAhead: async (path, targetOid, heads) => {
    requireOids([targetOid, ...heads]);
    const input = `^${targetOid}\n${heads.join('\n')}\n`;
    const output = await runner
      .run(path, ['rev-list', '--parents', '--stdin'], { input, maxOutputBytes: MAX_OUTPUT_BYTES })
      .catch((error: unknown) => {
        if (error instanceof GitError && error.reason === 'too_large') return null;
        throw error;
      });
    if (output === null) return null;
    const parents = new Map<string, readonly string[]>();
    for (const line of output.stdout.toString('latin1').split('\n')) {
      const [oid = '', ...others] = line.split(' ');
      if (oid !== '') parents.set(oid, others);
    }
    return new Map(heads.map((head) => [head, reachable(parents, head)]));
  },
});

/** Returns for each pair whether it merges without conflicts. */
const mergeAll = async (
  runner: Runner,
  path: string,
  ours: string,
  theirs: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<readonly boolean[]> => {
  const input = theirs.map((oid) => `${ours} ${oid}\n`).join('');
  const args = ['merge-tree', '--write-tree', '--stdin', '-z', '--no-messages', '--name-only'];
  try {
    const { stdout } = await runner.run(path, args, { input, env });
    const found = statuses(stdout.toString('latin1'));
    if (found.length === theirs.length) return found;
  } catch (error) {
    // git before 2.39 has no `--stdin`, and commits without a common ancestor end it. Then each is merged alone.
    if (!(error instanceof GitError) || error.reason !== 'failed') throw error;
  }
  const alone: boolean[] = [];
  for (const oid of theirs) {
    const base = await runner.run(path, ['merge-base', ours, oid], { env, allow: [1] });
    alone.push(base.exitCode === 0 && (await mergedTree(runner, path, [ours, oid], env)) !== null);
  }
  return alone;
};

/** Parses records of a status, a tree, and the names of files with conflicts, which end with an empty name. */
const statuses = (output: string): boolean[] => {
  const found: boolean[] = [];
  const tokens = output.split('\0');
  for (let at = 0; at + 1 < tokens.length; at++) {
    found.push(tokens[at] === '1');
    at += 2;
    while (at < tokens.length && tokens[at] !== '') at++;
  }
  return found;
};

const reachable = (parents: ReadonlyMap<string, readonly string[]>, head: string): number => {
  const seen = new Set<string>();
  const open = [head];
  for (let oid = open.pop(); oid !== undefined; oid = open.pop()) {
    const own = parents.get(oid);
    if (!own || seen.has(oid)) continue;
    seen.add(oid);
    open.push(...own);
  }
  return seen.size;
};
