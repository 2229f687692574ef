import { GitError } from '../git-error.ts';
import { createNewObjects } from '../objects/new-objects.ts';
import type { ObjectReader } from '../objects/reader.ts';
import type { Identity } from '../objects.ts';
import { type Runner, readOid } from '../process/runner.ts';
import { requireOids } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { signatureLine } from './identity.ts';
import { mergedTree } from './merged-commits.ts';
import { inQuarantine, type Quarantine } from './quarantine.ts';

/** Each commit takes three processes. */
const MAX_COMMITS = 500;

/** Applies the commits of a branch on top of another commit, one after the other, without a work tree. */
export const createRebases =
  (runner: Runner, objects: ObjectReader): Git['rebaseCommits'] =>
  async (path, { head, onto, committer }, judge) => {
    requireOids([head, onto]);
    return inQuarantine(runner, path, async (quarantine) => {
      const { env, discard } = quarantine;
      const args = ['--reverse', '--topo-order', '--no-merges', `--max-count=${MAX_COMMITS + 1}`, head, `^${onto}`];
      const { stdout } = await runner.run(path, ['rev-list', ...args], { env });
      const picked = stdout.toString('latin1').split('\n').filter(Boolean);
      let tip = { oid: onto, tree: await treeOf(runner, path, onto, env) };
      for (const oid of picked.length > MAX_COMMITS ? [] : picked) {
        const next = await pick(runner, objects, path, { oid, tip, committer }, quarantine);
        if (next === null) {
          discard();
          return { failed: 'conflict' };
        }
        tip = next;
      }
      if (picked.length > MAX_COMMITS) {
        discard();
        return { failed: 'too_many' };
      }
      // The commits of the target branch may be new to a fork. Its push rule is about those of the branch.
      await judge?.(tip.oid, createNewObjects(runner, objects, path, env, { known: [onto] }));
      return { oid: tip.oid };
    });
  };

interface Tip {
  readonly oid: string;
  readonly tree: string;
}

/** Applies one commit. Returns the same tip if that changes nothing, and null for a conflict. */
const pick = async (
  runner: Runner,
  objects: ObjectReader,
  path: string,
  { oid, tip, committer }: { readonly oid: string; readonly tip: Tip; readonly committer: Identity },
  { env, forget }: Quarantine,
): Promise<Tip | null> => {
  const object = await objects.read(path, 'contents', oid);
  if (!object || object.content.length < object.size) {
    throw new GitError('too_large', 'A commit of the branch is missing or too big to be rebased');
  }
  const raw = object.content;
  const parent = /^parent ([0-9a-f]{40})$/m.exec(headOf(raw).toString('latin1'))?.[1];
  if (parent === tip.oid) return { oid, tree: await treeOf(runner, path, oid, env) };
  // `merge-tree` finds the merge base itself: the parent of the commit, given a commit of our tree with that parent.
  const commitOf = (tree: string, parents: readonly string[]) =>
    readOid(runner, path, ['commit-tree', ...parents.flatMap((each) => ['-p', each]), '-m', 'rebase', tree], {
      env: { ...env, ...SCRATCH },
    });
  const empty =
    parent === undefined ? await commitOf(await readOid(runner, path, ['mktree'], { input: '', env }), []) : null;
  const ours = await commitOf(tip.tree, [parent ?? empty ?? '']);
  const theirs = empty === null ? oid : await commitOf(`${oid}^{tree}`, [empty]);
  const tree = await mergedTree(runner, path, [ours, theirs], env);
  await forget([ours, ...(empty === null ? [] : [empty, theirs])]);
  if (tree === null) return null;
  if (tree === tip.tree) return tip;
  const input = rewritten(raw, { tree, parent: tip.oid, committer });
  return { oid: await readOid(runner, path, ['hash-object', '-t', 'commit', '-w', '--stdin'], { input, env }), tree };
};

const SCRATCH = {
  GIT_AUTHOR_NAME: 'hub',
  GIT_AUTHOR_EMAIL: 'hub@localhost',
  GIT_COMMITTER_NAME: 'hub',
  GIT_COMMITTER_EMAIL: 'hub@localhost',
};

const treeOf = (runner: Runner, path: string, oid: string, env: Quarantine['env']): Promise<string> =>
  readOid(runner, path, ['rev-parse', '--verify', '--end-of-options', `${oid}^{tree}`], { env });

const headOf = (raw: Buffer): Buffer => {
  const end = raw.indexOf('\n\n');
  return end === -1 ? raw : raw.subarray(0, end);
};

/** Keeps author, encoding and message byte by byte. A signature would no longer be valid. */
const rewritten = (
  raw: Buffer,
  { tree, parent, committer }: { readonly tree: string; readonly parent: string; readonly committer: Identity },
): Buffer => {
  const head = headOf(raw);
  const lines = head.toString('latin1').split('\n');
  const kept = (name: string) => lines.filter((line) => line.startsWith(`${name} `)).slice(0, 1);
  const before = [`tree ${tree}`, `parent ${parent}`, ...kept('author')].join('\n');
  const after = kept('encoding')
    .map((line) => `\n${line}`)
    .join('');
  return Buffer.concat([
    Buffer.from(before, 'latin1'),
    Buffer.from(`\ncommitter ${signatureLine(committer)}`),
    Buffer.from(after, 'latin1'),
    raw.subarray(head.length),
  ]);
};
