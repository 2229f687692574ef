import { existsSync } from 'node:fs';
import { appendFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { runGit, tryGit } from '../repositories/support.ts';
import type { Branches } from './merging-model.ts';

const LINES = 8;
const FILES = ['a.txt', 'b.txt', 'c.txt'] as const;

/** A change of one commit. */
export type Step =
  | { readonly kind: 'line'; readonly file: string; readonly line: number; readonly text: string }
  | { readonly kind: 'append'; readonly file: string; readonly text: string }
  | { readonly kind: 'delete'; readonly file: string }
  | { readonly kind: 'rename'; readonly file: string };

const file = fc.constantFrom(...FILES);
const text = fc.constantFrom('x', 'y', 'ü', 'z z');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('line'), file, line: fc.nat(LINES - 1), text }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('append'), file, text }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete'), file }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('rename'), file }) },
);

/** The changes on both branches after they part. */
export interface History {
  readonly source: readonly Step[];
  readonly target: readonly Step[];
}

export const histories: fc.Arbitrary<History> = fc.record({
  source: fc.oneof(
    { weight: 1, arbitrary: fc.constant([]) },
    { weight: 3, arbitrary: fc.array(step, { minLength: 1, maxLength: 1 }) },
    { weight: 4, arbitrary: fc.array(step, { minLength: 2, maxLength: 4 }) },
  ),
  target: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 3, arbitrary: fc.array(step, { minLength: 1, maxLength: 3 }) },
  ),
});

const apply = async (tree: string, step: Step): Promise<void> => {
  const path = join(tree, step.file);
  if (step.kind === 'append') await appendFile(path, `${step.text}\n`);
  else if (step.kind === 'line') {
    const lines = Array.from({ length: LINES }, (_, n) => (n === step.line ? step.text : `line ${n}`));
    await writeFile(path, `${lines.join('\n')}\n`);
  } else if (!existsSync(path)) return;
  else if (step.kind === 'delete') await rm(path);
  else await rename(path, join(tree, `moved-${step.file}`));
};

export interface Made extends Branches {
  readonly head: string;
  readonly start: string;
  /** The tree that plain git makes of both branches; null if they conflict. */
  readonly tree: string | null;
}

/** Makes both branches in the work tree with plain git, and merges them there. */
export const makeHistory = async (
  tree: string,
  { source, target }: History,
  names: { readonly source: string; readonly target: string },
): Promise<Made> => {
  for (const [branch, steps] of [
    [names.source, source],
    [names.target, target],
  ] as const) {
    await runGit(tree, 'checkout', '-q', '-f', '-B', branch, 'main');
    for (const [index, each] of steps.entries()) {
      await apply(tree, each);
      await runGit(tree, 'add', '--all');
      await runGit(tree, 'commit', '-q', '--allow-empty', '-m', `${branch} ${index}`);
    }
  }
  const [head = '', start = ''] = (await runGit(tree, 'rev-parse', names.source, names.target)).split('\n');
  const merged = await tryGit(tree, 'merge', '-q', '--no-ff', '-m', 'Merged by git', head);
  const result = merged.code === 0 ? await runGit(tree, 'rev-parse', 'HEAD^{tree}') : null;
  // This also ends a merge with conflicts.
  await runGit(tree, 'reset', '-q', '--hard', start);
  return {
    head,
    start,
    tree: result,
    commits: source.length,
    conflicts: merged.code !== 0,
    isLinear: target.length === 0,
  };
};

/** Creates a work tree whose `main` has the files that histories change. */
export const startHistory = async (folder: string): Promise<string> => {
  const tree = await mkdtemp(join(folder, 'history-'));
  await runGit(tree, 'init', '-q', '-b', 'main');
  for (const name of FILES) {
    await writeFile(join(tree, name), Array.from({ length: LINES }, (_, n) => `line ${n}\n`).join(''));
  }
  await runGit(tree, 'add', '--all');
  await runGit(tree, 'commit', '-q', '-m', 'Start');
  return tree;
};
