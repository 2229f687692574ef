import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runGitWith } from '../support/git.ts';
import { fastImport, type GitBench, openBench, runGit } from './git-support.ts';

// Small histories are read without git, and all others by git. Both must answer alike, so any history is compared with a
// model of it.

interface Made {
  /** Earlier commits. */
  readonly parents: readonly number[];
  readonly path: string;
  /** Null deletes the file. */
  readonly content: string | null;
}

const PATHS = ['a', 'd/b', 'd/c'] as const;

const histories = fc.array(
  fc.record({
    /** Positions before the commit. Most follow the one just before them. */
    back: fc.oneof(
      { weight: 6, arbitrary: fc.constant<number[]>([1]) },
      { weight: 2, arbitrary: fc.uniqueArray(fc.integer({ min: 1, max: 4 }), { maxLength: 2 }) },
    ),
    path: fc.constantFrom(...PATHS),
    content: fc.option(fc.constantFrom('one', 'two', 'three'), { freq: 4 }),
  }),
  { minLength: 5, maxLength: 9 },
);

type Files = ReadonlyMap<string, string>;

/** The files of each commit: those of its first parent, with its change. */
const filesOf = (commits: readonly Made[]): Files[] => {
  const all: Files[] = [];
  for (const { parents, path, content } of commits) {
    const files = new Map(parents[0] === undefined ? [] : all[parents[0]]);
    files.delete(path);
    if (content !== null) files.set(path, content);
    all.push(files);
  }
  return all;
};

/** The commits that each commit reaches, with itself. */
const reachedBy = (commits: readonly Made[]): ReadonlySet<number>[] => {
  const all: ReadonlySet<number>[] = [];
  for (const [at, { parents }] of commits.entries()) {
    all.push(new Set([at, ...parents.flatMap((parent) => [...(all[parent] ?? [])])]));
  }
  return all;
};

const streamOf = (commits: readonly Made[]): string =>
  commits
    .map(({ parents, path, content }, at) =>
      [
        `commit refs/heads/c${at}`,
        `mark :${at + 1}`,
        // Each a minute later, so that git lists children before their parents.
        `committer Ada <ada@example.com> ${1_700_000_000 + at * 60} +0000`,
        'data 1',
        'x',
        ...parents.map((parent, nth) => `${nth === 0 ? 'from' : 'merge'} :${parent + 1}`),
        ...(content === null ? [`D ${path}`] : [`M 100644 inline ${path}`, `data ${content.length}`, content]),
        '',
      ].join('\n'),
    )
    .join('\n');

const changedBetween = (before: Files, after: Files): string[] =>
  PATHS.filter((path) => before.get(path) !== after.get(path));

const all = async <T>(source: AsyncIterable<T>): Promise<T[]> => {
  const read: T[] = [];
  for await (const each of source) read.push(each);
  return read;
};

let bench: GitBench;
let counter = 0;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

it('any history is read as it is, whether git is started for it or not', async () => {
  await fc.assert(
    fc.asyncProperty(histories, async (drawn) => {
      const commits = drawn.map(
        ({ back, ...change }, at): Made => ({ ...change, parents: back.map((n) => at - n).filter((n) => n >= 0) }),
      );
      const { git } = bench;
      const path = `histories/${++counter}.git`;
      const directory = join(bench.root, path);
      await git.init(path, 'main');
      await fastImport(directory, streamOf(commits));
      const refs = await git.listRefs(path, { prefix: 'refs/heads/', limit: 100 });
      const oids = commits.map((_, at) => refs.find(({ name }) => name === `refs/heads/c${at}`)?.oid ?? '');
      const [reached, files] = [reachedBy(commits), filesOf(commits)];
      const oidOf = (at: number) => oids[at] ?? '';
      const newestFirst = (some: Iterable<number>) => [...some].toSorted((a, b) => b - a).map(oidOf);

      for (const [from, own] of reached.entries()) {
        const id = oidOf(from);
        expect(await git.countCommits(path, { from: id })).toBe(own.size);
        const listed = await git.listCommits(path, { from: id, limit: 2, skip: 1 });
        expect(listed.map((commit) => commit.id)).toEqual(newestFirst(own).slice(1, 3));
        const held = await all(git.allFiles(path, id));
        const expected = [...(files[from] ?? [])].map(([name, { length: size }]) => [name, size]).toSorted();
        expect(held.map(({ path: name, size }) => [name, size])).toEqual(expected);

        for (const [to, others] of reached.entries()) {
          const range = { from: id, not: [oidOf(to)] };
          const between = newestFirst([...own].filter((each) => !others.has(each)));
          expect(await git.countCommits(path, range)).toBe(between.length);
          expect((await git.listCommits(path, { ...range, limit: 50 })).map((commit) => commit.id)).toEqual(between);
          expect(await git.isAncestor(path, oidOf(to), id)).toBe(own.has(to));
          const common = [...own].filter((each) => others.has(each));
          const best = common.filter((each) => !common.some((other) => other !== each && reached[other]?.has(each)));
          const base = await git.mergeBase(path, [id, oidOf(to)]);
          if (best.length === 0) expect(base).toBeNull();
          else expect(best.map(oidOf)).toContain(base);
          const changed = await all(git.changedPaths(path, id, oidOf(to)));
          expect(changed.toSorted()).toEqual(changedBetween(files[from] ?? new Map(), files[to] ?? new Map()));
        }
      }
      const newest = commits.length - 1;
      for (const kept of [0, 2, newest - 1]) {
        const excludeRefs = commits.map((_, at) => `refs/heads/c${at}`).slice(kept);
        const others = new Set(reached.slice(0, kept).flatMap((each) => [...each]));
        const fresh = newestFirst([...(reached[newest] ?? [])].filter((each) => !others.has(each)));
        const found = await git.newCommits(path, oidOf(newest), null, { excludeRefs, limit: 3 });
        expect(found.total).toBe(fresh.length);
        expect(found.commits.map((commit) => commit.id)).toEqual(fresh.slice(0, 3));
      }
      for (const name of [...PATHS, 'd', 'none']) {
        const last = await runGit(directory, 'rev-list', '--max-count=1', oidOf(newest), '--', name);
        expect(await git.lastCommitOf(path, oidOf(newest), name)).toBe(last || null);
      }
    }),
    { numRuns: 4 },
  );
});

it('a repository has the size of its loose objects and packs', async () => {
  const path = 'sizes/1.git';
  await bench.git.init(path, 'main');
  const content = Array.from({ length: 5_000 }, (_, n) => n.toString(36)).join(' ');
  await fastImport(
    join(bench.root, path),
    `commit refs/heads/main\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 1\nx\nM 100644 inline a\ndata ${content.length}\n${content}\n`,
  );
  const packed = await bench.git.diskSize(path);
  expect(packed).toBeGreaterThan(content.length / 5);
  const ada = { name: 'Ada', email: 'ada@example.com', date: new Date() };
  const parent = await bench.git.resolve(path, 'refs/heads/main');
  const file = { action: 'create', path: 'b', content: [...content].reverse().join('') } as const;
  const text = { message: 'Add', author: ada, committer: ada };
  await bench.git.commitFiles(path, { branch: 'main', parent, ...text, files: [file] });
  expect(await bench.git.diskSize(path)).toBeGreaterThan(packed + content.length / 5);
  await expect(bench.git.diskSize('sizes/none.git')).rejects.toMatchObject({ reason: 'missing' });
});

it('commits and trees that git would not write itself are read as git reads them', async () => {
  const { git } = bench;
  const path = 'odd/1.git';
  const directory = join(bench.root, path);
  await git.init(path, 'main');
  const write = (type: string, content: string | Buffer) =>
    runGitWith({ input: content }, directory, 'hash-object', '-w', '-t', type, '--literally', '--stdin');
  const blob = await write('blob', 'one');
  const other = await write('blob', 'two');
  const entry = (mode: string, name: string, oid: string) =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')]);
  const commit = (tree: string, parents: string, more = '') =>
    write(
      'commit',
      `tree ${tree}\n${parents}author A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n${more}\nx\n`,
    );
  const plain = await write('tree', entry('100644', 'f', blob));
  const first = await commit(plain, '');

  // A parent that is named in a wrong place is none.
  const forged = await commit(plain, '', `parent ${first}\n`);
  expect(await git.isAncestor(path, first, forged)).toBe(false);
  expect(await git.mergeBase(path, [first, forged])).toBeNull();
  expect(await git.countCommits(path, { from: forged })).toBe(1);
  // The encoding of a message does not hide its parents.
  const encoded = await commit(plain, `parent ${first}\n`, 'encoding UTF-16LE\n');
  expect(await git.isAncestor(path, first, encoded)).toBe(true);
  expect(await git.countCommits(path, { from: encoded })).toBe(2);

  const [below, belowOther] = await Promise.all([blob, other].map((oid) => write('tree', entry('100644', 's', oid))));
  const folders = [entry('40000', 'd', below ?? ''), entry('40755', 'd', belowOther ?? '')];
  const [usual, unusual] = await Promise.all(folders.map((each) => write('tree', each)));
  const before = await commit(usual ?? '', '');
  const after = await commit(unusual ?? '', `parent ${before}\n`);
  expect(await all(git.changedPaths(path, before, after))).toEqual(['d/s']);
  expect((await all(git.allFiles(path, after))).map((file) => file.path)).toEqual(['d/s']);
  expect(await git.lastCommitOf(path, after, 'd/s')).toBe(after);
  const shared = await commit(await write('tree', entry('100664', 'f', blob)), `parent ${first}\n`);
  expect(await all(git.changedPaths(path, first, shared))).toEqual([]);
  expect(await git.lastCommitOf(path, shared, 'f')).toBe(first);
});
