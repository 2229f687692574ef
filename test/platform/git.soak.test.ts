import { EventEmitter, once } from 'node:events';
import { mkdir, readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewObjects } from '#platform/git/objects.ts';
import type { FilesCommit } from '#platform/git/writing.ts';
import { computedMs } from '../support/computed-ms.ts';
import { commitFile, fastImport, type GitBench, openBench, runGit, workTree } from './git-support.ts';

let bench: GitBench;
let counter = 0;
const newPath = () => `@hashed/ab/cd/${++counter}.git`;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

const ada = { name: 'Ada', email: 'ada@example.com', date: new Date('2024-01-31T08:00:00Z') };

const filesCommit = (change: Partial<BranchCommit>): BranchCommit => ({
  branch: 'main',
  parent: null,
  message: 'Initial commit',
  author: ada,
  committer: ada,
  files: [{ action: 'create', path: 'README.md', content: '# Hello\n' }],
  ...change,
});

type BranchCommit = FilesCommit & { readonly branch: string };

const objectsOf = async (path: string): Promise<string[]> =>
  (await readdir(join(bench.root, path, 'objects'), { recursive: true })).sort();

/** Returns the temporary files that work left beside the objects. */
const leftovers = async (path: string): Promise<string[]> =>
  (await objectsOf(path)).filter((name) => name.startsWith('tmp_'));

/** Creates a repository with the history of a work tree. */
const pushed = async (tree: string): Promise<string> => {
  const path = newPath();
  await bench.git.init(path, 'main');
  await runGit(tree, 'push', '-q', join(bench.root, path), '--all');
  await runGit(tree, 'push', '-q', join(bench.root, path), '--tags');
  return path;
};

describe('a repository', () => {
  it('is created completely, once, and removed', async () => {
    const path = newPath();
    expect(await bench.git.exists(path)).toBe(false);
    await Promise.all([bench.git.init(path, 'trunk'), bench.git.init(path, 'trunk')]);
    expect(await bench.git.exists(path)).toBe(true);
    expect(await bench.git.head(path)).toBe('trunk');
    expect(await bench.git.isEmpty(path)).toBe(true);
    await bench.git.setHead(path, 'main');
    await bench.git.init(path, 'other');
    expect(await bench.git.head(path)).toBe('main');
    expect(await readdir(join(bench.root, path))).not.toContain('hooks');
    await bench.git.remove(path);
    await bench.git.remove(path);
    expect(await bench.git.exists(path)).toBe(false);
    const left = await readdir(join(bench.root, '@hashed/ab/cd'));
    expect(left.filter((name) => name.startsWith(`${counter}.`))).toEqual([]);
  });

  it.each(['../x.git', '/etc/x.git', 'a/../../x.git', 'a//b.git', '.hooks/x.git', 'plain', '-x.git', 'a\u0000.git'])(
    'refuses the path %j',
    async (path) => {
      await expect(bench.git.init(path, 'main')).rejects.toMatchObject({ name: 'GitError', reason: 'invalid' });
    },
  );

  it('reports that a repository is missing, without its path', async () => {
    const error: unknown = await bench.git
      .listRefs('no/such.git', { prefix: 'refs/heads/' })
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({ reason: 'missing', message: 'The repository does not exist' });
    expect(JSON.stringify(error)).not.toContain(bench.folder);
    await expect(bench.git.readCommits('no/such.git', ['a'.repeat(40)])).rejects.toMatchObject({ reason: 'missing' });
    await expect(bench.git.resolve('no/such.git', 'refs/heads/main')).rejects.toMatchObject({ reason: 'missing' });
  });

  it('reports the version of git', async () => {
    expect(await bench.git.requireVersion()).toMatch(/^\d+\.\d+/);
  });

  it('stops on the signal', async () => {
    const path = newPath();
    await bench.git.init(path, 'main');
    const signal = AbortSignal.abort();
    await expect(bench.git.listRefs(path, { prefix: 'refs/heads/', signal })).rejects.toMatchObject({
      reason: 'aborted',
    });
  });

  it('is packed, and its size on disk is measured', async () => {
    const path = await pushed(await workTree(bench.folder));
    expect(await bench.git.diskSize(path)).toBeGreaterThan(0);
    await bench.git.gc(path);
    expect(await bench.git.resolveCommit(path, 'main')).toMatch(/^[0-9a-f]{40}$/);
  });
});

describe('a ref', () => {
  it('is resolved as users type it: branch, then tag, then commit id', async () => {
    const tree = await workTree(bench.folder);
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    const second = await commitFile(tree, 'b', 'b', 'Second');
    await runGit(tree, 'branch', 'both', first);
    await runGit(tree, 'tag', 'both', second);
    await runGit(tree, 'tag', '-a', '-m', 'Release one\n\nwith text', 'v1', first);
    await runGit(tree, 'branch', 'both-and/more', first);
    const path = await pushed(tree);
    const { git } = bench;

    expect(await git.resolveCommit(path, 'both')).toBe(first);
    expect(await git.resolveCommit(path, 'v1')).toBe(first);
    expect(await git.resolveCommit(path, second)).toBe(second);
    expect(await git.resolveCommit(path, second.slice(0, 8))).toBe(second);
    for (const text of [
      'both-and',
      'HEAD',
      'main~1',
      'main^{tree}',
      'refs/heads/main',
      '--all',
      ':/Second',
      'deadbeef',
      '',
      'main:b',
      '@',
    ]) {
      expect(await git.resolveCommit(path, text), text).toBeNull();
    }
    expect(await git.resolve(path, 'refs/heads/main')).toBe(second);
    expect(await git.resolve(path, 'refs/tags/v1')).not.toBe(first);
    expect(await git.resolve(path, 'refs/heads/none')).toBeNull();

    const tags = await git.listRefs(path, { prefix: 'refs/tags/' });
    expect(tags.map(({ name, peeledOid, message }) => ({ name, peeledOid, message }))).toEqual([
      { name: 'refs/tags/both', peeledOid: second, message: null },
      { name: 'refs/tags/v1', peeledOid: first, message: 'Release one\n\nwith text\n' },
    ]);
    const branches = await git.listRefs(path, { prefix: 'refs/heads/', after: 'refs/heads/both', limit: 1 });
    expect(branches.map(({ name }) => name)).toEqual(['refs/heads/both-and/more']);
    for (const round of ['asked', 'remembered']) {
      expect([...(await git.containedIn(path, first, [first, second]))], round).toEqual([first]);
      expect([...(await git.containedIn(path, second, [first, second, first]))], round).toEqual([first, second]);
    }
    await expect(git.containedIn(path, first, ['--all'])).rejects.toMatchObject({ reason: 'invalid' });
    expect(await git.isAncestor(path, first, second)).toBe(true);
    expect(await git.isAncestor(path, second, first)).toBe(false);
  });

  it('moves together with the others or not at all', async () => {
    const tree = await workTree(bench.folder);
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    const second = await commitFile(tree, 'b', 'b', 'Second');
    const path = await pushed(tree);
    const { git } = bench;
    await git.updateRefs(path, [
      { ref: 'refs/heads/a', oldOid: null, newOid: first },
      { ref: 'refs/merge-requests/1/head', newOid: second },
      { ref: `refs/keep-around/${second}`, newOid: second },
    ]);
    const clash = [
      { ref: 'refs/heads/new', oldOid: null, newOid: first },
      { ref: 'refs/heads/a', oldOid: second, newOid: null },
    ];
    await expect(git.updateRefs(path, clash)).rejects.toMatchObject({ reason: 'conflict' });
    await expect(git.updateRefs(path, [{ ref: 'refs/heads/a', oldOid: null, newOid: second }])).rejects.toMatchObject({
      reason: 'conflict',
    });
    await expect(git.updateRefs(path, [{ ref: 'refs/heads/a/b', oldOid: null, newOid: second }])).rejects.toMatchObject(
      { reason: 'conflict' },
    );
    await expect(git.updateRefs(path, [{ ref: 'refs/heads/-x', newOid: second }])).rejects.toMatchObject({
      reason: 'invalid',
    });
    await expect(git.updateRefs(path, [{ ref: 'refs/heads/x\0y', newOid: second }])).rejects.toMatchObject({
      reason: 'invalid',
    });
    expect(await git.resolve(path, 'refs/heads/new')).toBeNull();
    expect(await git.resolve(path, 'refs/heads/a')).toBe(first);
    await git.updateRefs(path, [{ ref: 'refs/heads/a', oldOid: first, newOid: null }]);
    expect(await git.resolve(path, 'refs/heads/a')).toBeNull();
  });

  it('is listed among 10,000 in well under a second, filtered or not', async () => {
    const path = newPath();
    await bench.git.init(path, 'main');
    const names = Array.from({ length: 10_000 }, (_, n) => `branch-${String(n).padStart(5, '0')}`);
    const commit = `commit refs/heads/main\nmark :1\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\n`;
    await fastImport(
      join(bench.root, path),
      commit + names.map((name) => `reset refs/heads/${name}\nfrom :1\n`).join('\n'),
    );
    const startedAt = computedMs();
    expect(await bench.git.listRefs(path, { prefix: 'refs/heads/' })).toHaveLength(10_001);
    const page = await bench.git.listRefs(path, {
      prefix: 'refs/heads/',
      match: (name) => name.endsWith('7'),
      limit: 20,
    });
    expect(page.map(({ name }) => name).slice(0, 2)).toEqual(['refs/heads/branch-00007', 'refs/heads/branch-00017']);
    expect(computedMs() - startedAt).toBeLessThan(2_000);
  });
});

describe('containment', () => {
  it('is found for branches that are far ahead and for others', async () => {
    const path = newPath();
    await bench.git.init(path, 'main');
    const commit = (ref: string, mark: number, from: string) =>
      `commit ${ref}\nmark :${mark}\ncommitter A <a@example.com> ${1_700_000_000 + mark} +0000\ndata 1\nx\n${from}`;
    const ahead = Array.from({ length: 13_000 }, (_, n) =>
      commit('refs/heads/ahead', n + 3, `from :${n === 0 ? 1 : n + 2}\n`),
    );
    await fastImport(
      join(bench.root, path),
      [commit('refs/heads/old', 1, ''), commit('refs/heads/main', 2, 'from :1\n'), ...ahead].join('\n'),
    );
    const { git } = bench;
    const [old = '', main = '', far = ''] = await Promise.all(
      ['old', 'main', 'ahead'].map(async (name) => (await git.resolve(path, `refs/heads/${name}`)) ?? ''),
    );
    expect([...(await git.containedIn(path, main, [far, old, main]))]).toEqual([old, main]);
    expect([...(await git.containedIn(path, far, [far, old, main]))]).toEqual([far, old]);
  });
});

describe('history', () => {
  it('reads commits with their dates, offsets, parents and trailers', async () => {
    const path = newPath();
    await bench.git.init(path, 'main');
    const message =
      'Fix  the thing\n\nBecause.\n\nChangelog: fixed\nCo-authored-by: Cy <cy@example.com>\nCo-authored-by: Bob <bob@example.com>\n';
    await fastImport(
      join(bench.root, path),
      `commit refs/heads/main\nauthor Ada Lövelace <ada@example.com> 1706688000 +0200\ncommitter Bob <bob@example.com> 1706688000 -0330\ndata ${Buffer.byteLength(message)}\n${message}\n`,
    );
    const oid = (await bench.git.resolveCommit(path, 'main')) ?? '';
    const [commit] = await bench.git.readCommits(path, ['f'.repeat(40), oid, 'nonsense']);
    expect(commit).toMatchObject({
      id: oid,
      short_id: oid.slice(0, 8),
      parent_ids: [],
      title: 'Fix  the thing',
      message,
      author_name: 'Ada Lövelace',
      author_email: 'ada@example.com',
      authored_date: '2024-01-31T10:00:00.000+02:00',
      committer_name: 'Bob',
      committed_date: '2024-01-31T04:30:00.000-03:30',
    });
    expect(Object.entries(commit?.trailers ?? {})).toEqual([
      ['Changelog', 'fixed'],
      ['Co-authored-by', 'Bob <bob@example.com>'],
    ]);
    expect(commit?.extended_trailers['Co-authored-by']).toEqual(['Cy <cy@example.com>', 'Bob <bob@example.com>']);
  });

  it('reads malformed commits', async () => {
    const tree = await workTree(bench.folder);
    await runGit(
      tree,
      '-c',
      'i18n.commitEncoding=ISO-8859-1',
      'commit',
      '-q',
      '--allow-empty',
      '--allow-empty-message',
      '-m',
      '',
    );
    const path = await pushed(tree);
    const oid = (await bench.git.resolveCommit(path, 'main')) ?? '';
    expect((await bench.git.readCommits(path, [oid]))[0]).toMatchObject({ title: '', message: '', trailers: {} });
  });

  it('lists and counts by range, path, author and time', async () => {
    const tree = await workTree(bench.folder);
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    const second = await commitFile(tree, 'b [x]', 'b', 'Second');
    const third = await commitFile(tree, 'c', 'c', 'Third');
    const path = await pushed(tree);
    const { git } = bench;
    const ids = async (options: Parameters<typeof git.listCommits>[1]) =>
      (await git.listCommits(path, options)).map(({ id }) => id);
    expect(await ids({ from: 'refs/heads/main', limit: 10 })).toEqual([third, second, first]);
    expect(await ids({ from: third, not: [first], limit: 10, skip: 1 })).toEqual([second]);
    expect(await ids({ from: third, path: 'b [x]', limit: 10 })).toEqual([second]);
    expect(await ids({ from: third, author: 'ADA@example', limit: 10, firstParent: true })).toHaveLength(3);
    expect(await ids({ from: third, author: 'Ad.', limit: 10 })).toEqual([]);
    expect(await ids({ from: third, until: new Date(0), limit: 10 })).toEqual([]);
    expect(await git.countCommits(path, { from: third })).toBe(3);
    await expect(git.countCommits(path, { from: '--all' })).rejects.toMatchObject({ reason: 'invalid' });
  });

  it('reports the commits of a push', async () => {
    const tree = await workTree(bench.folder);
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'checkout', '-q', '-b', 'topic');
    const second = await commitFile(tree, 'b', 'b', 'Second');
    const third = await commitFile(tree, 'c', 'c', 'Third');
    const path = await pushed(tree);
    const { git } = bench;
    const created = await git.newCommits(path, third, null, { excludeRefs: ['refs/heads/topic'], limit: 1 });
    expect(created).toMatchObject({ total: 2, commits: [{ id: third }] });
    expect(await git.newCommits(path, first, null, { excludeRefs: ['refs/heads/main'] })).toEqual({
      commits: [],
      total: 0,
    });
    expect(await git.newCommits(path, third, first)).toMatchObject({
      total: 2,
      commits: [{ id: third }, { id: second }],
    });
    expect(await git.newCommits(path, third, 'e'.repeat(40))).toMatchObject({ total: 3 });
  });

  it('reports the files each commit changed, comparing a merge with its first parent', async () => {
    const tree = await workTree(bench.folder);
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    const odd = 'a'.repeat(40);
    await commitFile(tree, odd, 'x', 'Odd name');
    const second = await commitFile(tree, 'ü "q"', 'b', 'Second');
    await runGit(tree, 'checkout', '-q', '-b', 'side', first);
    await commitFile(tree, 'side', 's', 'Side');
    await runGit(tree, 'checkout', '-q', 'main');
    await runGit(tree, 'merge', '-q', '--no-ff', '-m', 'Merge', 'side');
    const merge = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'rm', '-q', 'README.md');
    const last = await commitFile(tree, 'side', 'changed', 'Last');
    const path = await pushed(tree);
    const changed = await bench.git.changedFiles(path, [last, merge, second, first]);
    expect([...changed]).toEqual([
      [last, { added: [], modified: ['side'], removed: ['README.md'] }],
      [merge, { added: ['side'], modified: [], removed: [] }],
      [second, { added: ['ü "q"'], modified: [], removed: [] }],
      [first, { added: ['README.md'], modified: [], removed: [] }],
    ]);
    expect(await bench.git.changedFiles(path, [])).toEqual(new Map());
  });

  it('serves many readers of many repositories at once', async () => {
    const tree = await workTree(bench.folder);
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    const paths = await Promise.all(Array.from({ length: 20 }, () => pushed(tree)));
    const reads = await Promise.all(
      paths.flatMap((path) => [1, 2, 3].map(() => bench.git.readCommits(path, [oid, oid]))),
    );
    expect(reads.every((commits) => commits.length === 2 && commits[1]?.id === oid)).toBe(true);
  });
});

describe('a file', () => {
  it('is committed without a work tree, listed and read', async () => {
    const path = newPath();
    const { git } = bench;
    await git.init(path, 'main');
    const first = await git.commitFiles(path, filesCommit({}));
    const big = Buffer.alloc(3_000_000, 'x');
    const second = await git.commitFiles(
      path,
      filesCommit({
        parent: first,
        message: 'More\n\nText',
        files: [
          { action: 'update', path: 'README.md', content: 'New' },
          { action: 'create', path: 'dir/big.bin', content: big },
          { action: 'create', path: 'dir/run me', content: '#!/bin/sh\n', mode: '100755' },
        ],
      }),
    );
    expect(await git.resolve(path, 'refs/heads/main')).toBe(second);
    expect((await git.readCommits(path, [second]))[0]).toMatchObject({
      parent_ids: [first],
      title: 'More',
      author_name: 'Ada',
      authored_date: '2024-01-31T08:00:00.000+00:00',
    });
    const pathsIn = async (treeish: string) => {
      const paths: string[] = [];
      for await (const entry of git.walkTree(path, treeish)) paths.push(entry.path);
      return paths;
    };
    expect(await pathsIn(second)).toEqual(['dir', 'README.md']);
    const { oid: dir = '' } = (await git.findFile(path, second, 'dir')) ?? {};
    expect(await pathsIn(dir)).toEqual(['big.bin', 'run me']);
    expect([
      ...(await git.findFiles(path, second, ['dir/big.bin', 'dir/run me', 'dir/none/x'])).values(),
    ]).toMatchObject([
      { path: 'dir/big.bin', size: 3_000_000, mode: '100644' },
      { path: 'dir/run me', mode: '100755' },
    ]);
    expect(await git.findFile(path, second, 'none')).toBeNull();
    const entry = await git.findFile(path, second, 'dir/big.bin');
    const blob = await git.readBlob(path, entry?.oid ?? '');
    expect(blob?.size).toBe(3_000_000);
    expect(blob === null ? '' : await text(blob.stream)).toHaveLength(3_000_000);
    expect(await git.readBlob(path, second)).toBeNull();
    expect(await git.readBlob(path, 'f'.repeat(40))).toBeNull();

    const third = await git.commitFiles(
      path,
      filesCommit({ parent: second, files: [{ action: 'delete', path: 'dir/big.bin' }] }),
    );
    expect(await git.findFile(path, third, 'dir/big.bin')).toBeNull();
    expect(await git.findFile(path, third, 'dir/run me')).toMatchObject({ mode: '100755' });
    await runGit(join(bench.root, path), 'fsck', '--strict');
    expect(await leftovers(path)).toEqual([]);
  });

  it('times out when a reader stalls', async () => {
    const path = newPath();
    const { git } = bench;
    await git.init(path, 'main');
    const content = Buffer.alloc(1_000_000, 'x');
    const head = await git.commitFiles(path, filesCommit({ files: [{ action: 'create', path: 'big', content }] }));
    const { oid = '' } = (await git.findFile(path, head, 'big')) ?? {};
    const stalled = await git.readBlob(path, oid, { idleTimeoutMs: 50 });
    stalled?.stream.read(1);
    const [error] = await once(stalled?.stream ?? new EventEmitter(), 'error');
    expect(error).toMatchObject({ reason: 'timeout' });
    const whole = await git.readBlob(path, oid, { idleTimeoutMs: 20_000 });
    expect(whole === null ? '' : await text(whole.stream)).toHaveLength(1_000_000);
  });

  it('stays unchanged when the change is not possible', async () => {
    const path = newPath();
    const { git } = bench;
    await git.init(path, 'main');
    const first = await git.commitFiles(path, filesCommit({}));
    const refused = async (change: Partial<BranchCommit>, reason: string) => {
      await expect(git.commitFiles(path, filesCommit({ parent: first, ...change }))).rejects.toMatchObject({ reason });
    };
    await refused({ files: [{ action: 'create', path: '../../etc/x', content: '' }] }, 'invalid');
    await refused({ files: [{ action: 'create', path: '.git/config', content: '' }] }, 'invalid');
    await refused({ files: [{ action: 'create', path: 'README.md', content: '' }] }, 'invalid');
    await refused({ files: [{ action: 'create', path: 'README.md/x', content: '' }] }, 'invalid');
    const both = ['x', 'x/y'].map((name) => ({ action: 'create' as const, path: name, content: '' }));
    await refused({ files: both }, 'invalid');
    await refused({ files: [{ action: 'update', path: 'none', content: '' }] }, 'invalid');
    await refused({ files: [{ action: 'delete', path: 'none' }] }, 'invalid');
    await refused({ branch: '-x' }, 'invalid');
    await refused({ parent: null, files: [{ action: 'create', path: 'x', content: '' }] }, 'conflict');
    expect(await git.resolve(path, 'refs/heads/main')).toBe(first);
    expect(await leftovers(path)).toEqual([]);
  });

  it('leaves no objects when the commit is refused, and keeps them when it is accepted', async () => {
    const path = newPath();
    const { git } = bench;
    await git.init(path, 'main');
    const seen: string[] = [];
    const judge = (refuse: boolean) => async (oid: string, objects: NewObjects) => {
      for await (const { id } of objects.commits([oid])) seen.push(id);
      for await (const { size } of objects.blobsOver([oid], 5)) seen.push(`${size} bytes`);
      if (refuse) throw new Error('refused');
    };
    const { branch: _, ...commit } = filesCommit({});
    const before = await objectsOf(path);
    await expect(git.createCommit(path, commit, { judge: judge(true) })).rejects.toThrow('refused');
    expect(await objectsOf(path)).toEqual(before);
    // The commit is still new to the second check.
    const oid = await git.createCommit(path, commit, { judge: judge(false) });
    expect(seen).toEqual([oid, '8 bytes', oid, '8 bytes']);
    expect(await git.readCommits(path, [oid])).toHaveLength(1);
    expect(await leftovers(path)).toEqual([]);
    expect(await git.isEmpty(path)).toBe(true);
    // `gc` removes the temporary folder of a process that died.
    const rest = join(bench.root, path, 'objects', 'tmp_objdir-incoming-x');
    await mkdir(rest);
    await utimes(rest, 1, 1);
    await git.gc(path);
    expect(await leftovers(path)).toEqual([]);
  });

  it('gets the change of another commit, or none on a conflict or if the change is already there', async () => {
    const path = newPath();
    const { git } = bench;
    await git.init(path, 'main');
    const lines = (first: string, last: string) => `${first}\n1\n2\n3\n4\n5\n${last}\n`;
    const make = async (parent: string | null, content: string, action: 'create' | 'update' = 'update') => {
      const { branch: _, ...commit } = filesCommit({ parent, files: [{ action, path: 'f', content }] });
      return git.createCommit(path, commit);
    };
    const base = await make(null, lines('a', 'z'), 'create');
    const top = await make(base, lines('b', 'z'));
    const end = await make(base, lines('a', 'y'));
    const signed = { message: 'Picked', author: ada, committer: ada };
    const picked = await git.applyChange(path, { base, changed: end, onto: top, ...signed });
    const oid = 'oid' in picked ? picked.oid : '';
    const entry = await git.findFile(path, oid, 'f');
    const blob = await git.readBlob(path, entry?.oid ?? '');
    expect(blob && (await text(blob.stream))).toBe(lines('b', 'y'));
    expect((await git.readCommits(path, [oid]))[0]).toMatchObject({ parent_ids: [top], title: 'Picked' });
    const other = await make(base, lines('c', 'z'));
    expect(await git.applyChange(path, { base, changed: other, onto: top, ...signed })).toEqual({ failed: 'conflict' });
    expect(await git.applyChange(path, { base, changed: top, onto: top, ...signed })).toEqual({ failed: 'empty' });
    expect(await leftovers(path)).toEqual([]);
  });
});
