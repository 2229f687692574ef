import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createGit } from '#platform/git/git.ts';
import type { FileChange } from '#platform/git/writing.ts';
import { createLogger } from '#platform/log.ts';
import { fastImport, type GitBench, openBench, runGit } from './git-support.ts';

let bench: GitBench;
let counter = 0;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

const newRepository = async (): Promise<{ path: string; directory: string }> => {
  const path = `@hashed/wr/it/${++counter}.git`;
  await bench.git.init(path, 'main');
  return { path, directory: join(bench.root, path) };
};
const ada = { name: 'Ada', email: 'ada@example.com', date: new Date('2024-01-31T08:00:00Z') };
const commitOn = (path: string, parent: string | null, files: readonly FileChange[]): Promise<string> =>
  bench.git.commitFiles(path, { branch: 'main', parent, message: 'Change', author: ada, committer: ada, files });

const PATHS = ['a', 'a-b', 'a.b', 'a0', 'a/b', 'a/b/c', 'a/c', 'd/e/f/g', 'd/e/h', 'ü/ö x', 'z'];
const isBelow = (path: string, folder: string) => path.startsWith(`${folder}/`);

/** Returns a change that is possible with the given files, or null if there is none. */
const changeFor = (files: ReadonlyMap<string, string>, path: string, content: string): FileChange | null => {
  if (files.has(path)) {
    return content.length % 2 === 0 ? { action: 'delete', path } : { action: 'update', path, content };
  }
  const isTaken = [...files.keys()].some((other) => isBelow(other, path) || isBelow(path, other));
  return isTaken ? null : { action: 'create', path, content };
};

describe('a commit made without git', () => {
  it('contains the files that git finds in it, and reports the same changes as git', async () => {
    const choice = fc.tuple(fc.constantFrom(...PATHS), fc.string({ maxLength: 3 }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(choice, { minLength: 1, maxLength: 6 }), { maxLength: 4 }),
        async (commits) => {
          const { path, directory } = await newRepository();
          const files = new Map<string, string>();
          let head: string | null = null;
          for (const choices of commits) {
            const changes: FileChange[] = [];
            const touched = new Set<string>();
            const start = new Map(files);
            for (const [name, content] of choices) {
              const change = touched.has(name) ? null : changeFor(start, name, content);
              // A folder that this commit empties still counts as a folder during the commit.
              if (!change || [...touched].some((other) => isBelow(name, other) || isBelow(other, name))) continue;
              touched.add(name);
              changes.push(change);
              if (change.action === 'delete') files.delete(name);
              else files.set(name, content);
            }
            if (changes.length === 0) continue;
            head = await commitOn(path, head, changes);
            const listed = await runGit(directory, 'ls-tree', '-r', '-z', '--name-only', head);
            expect(listed.split('\0').filter(Boolean).sort()).toEqual([...files.keys()].sort());
            for (const [name, content] of files) {
              const entry = await bench.git.findFile(path, head, name);
              expect((await bench.git.readBytes(path, entry?.oid ?? '', 100))?.toString()).toBe(content);
            }
            const output = await runGit(
              directory,
              'diff-tree',
              '--root',
              '-r',
              '-z',
              '--no-commit-id',
              '--name-status',
              head,
            );
            const tokens = output.split('\0');
            const pathsOf = (letter: string) => tokens.filter((_, at) => at % 2 === 1 && tokens[at - 1] === letter);
            expect((await bench.git.changedFiles(path, [head])).get(head)).toEqual({
              added: pathsOf('A'),
              modified: pathsOf('M'),
              removed: pathsOf('D'),
            });
          }
          await runGit(directory, 'fsck', '--strict');
        },
      ),
      { numRuns: 12 },
    );
  });

  it('keeps everything it does not change: names in any encoding, links, submodules, modes', async () => {
    const { path, directory } = await newRepository();
    await fastImport(
      directory,
      [
        'commit refs/heads/main\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 1\nx',
        'M 100644 inline "caf\\351/\\377"\ndata 1\nx',
        'M 100755 inline run\ndata 1\nx',
        'M 120000 inline link\ndata 3\nrun',
        `M 160000 ${'a'.repeat(40)} module`,
        '',
      ].join('\n'),
    );
    const before = await runGit(directory, 'ls-tree', '-r', 'main');
    const parent = await runGit(directory, 'rev-parse', 'main');
    const head = await commitOn(path, parent, [{ action: 'create', path: 'middle', content: 'm' }]);
    const after = (await runGit(directory, 'ls-tree', '-r', head)).split('\n');
    expect(after.filter((line) => !line.endsWith('\tmiddle'))).toEqual(before.split('\n'));
    expect(after).toHaveLength(5);
    await runGit(directory, 'fsck', '--strict');
  });

  it('goes into folders with more entries than are read at once', async () => {
    const { path, directory } = await newRepository();
    const count = 5_000;
    const nameOf = (n: number) => `file-${'long'.repeat(50)}-${String(n).padStart(4, '0')}`;
    const lines = Array.from({ length: count }, (_, n) => `M 100644 :1 many/${nameOf(n)}\n`);
    const head = 'commit refs/heads/main\ncommitter Ada <ada@example.com> 1700000000 +0000\ndata 1\nx\n';
    await fastImport(directory, `blob\nmark :1\ndata 1\nx\n${head}${lines.join('')}`);
    const parent = await runGit(directory, 'rev-parse', 'main');
    const oid = await commitOn(path, parent, [{ action: 'delete', path: `many/${nameOf(7)}` }]);
    expect(await bench.git.findFile(path, oid, `many/${nameOf(7)}`)).toBeNull();
    expect(await bench.git.findFile(path, oid, `many/${nameOf(count - 1)}`)).toMatchObject({ size: 1 });
    expect((await runGit(directory, 'ls-tree', '--name-only', `${oid}:many`)).split('\n')).toHaveLength(count - 1);
  });

  it('has all its objects, even if git loses one when it moves them into their folders', async () => {
    const script = join(bench.folder, 'losing-git');
    const lost = join(bench.folder, 'lost');
    const root = join(bench.folder, 'losing');
    await writeFile(
      script,
      `#!/bin/sh
git "$@" || exit
case "$*" in *unpack-objects*) [ -e '${lost}' ] || find '${root}/a/b.git/objects' -path '*/??/*' -type f |
  head -n 1 | tee '${lost}' | xargs rm;; esac\n`,
    );
    await chmod(script, 0o755);
    const git = createGit({ root, log: createLogger('silent'), gitBinary: script });
    await git.init('a/b.git', 'main');
    await git.commitFiles('a/b.git', {
      branch: 'main',
      parent: null,
      message: 'Change',
      author: ada,
      committer: ada,
      files: ['1', '2', '3'].map((name) => ({ action: 'create' as const, path: name, content: name })),
    });
    await git.close();
    expect(await readFile(lost, 'utf8')).not.toBe('');
    await runGit(join(root, 'a/b.git'), 'fsck', '--strict');
  });

  it('is written again if the folders of its objects vanish before git has put a file into them', async () => {
    const script = join(bench.folder, 'hasty-git');
    const failures = join(bench.folder, 'failures');
    const root = join(bench.folder, 'vanishing');
    const objects = join(root, 'a/b.git/objects');
    // `mkdir` fails on a dangling link as on a folder that exists, and no file can be created in it.
    await writeFile(
      script,
      `#!/bin/sh
case "$*" in *unpack-objects*) [ -e '${failures}' ] || {
  for n in $(seq 0 255); do ln -s /nowhere/at/all "$(printf '${objects}/%02x' $n)"; done
  git "$@" 2>'${failures}'; status=$?
  find '${objects}' -type l -delete
  cat '${failures}' >&2; exit $status; };; esac
exec git "$@"\n`,
    );
    await chmod(script, 0o755);
    const git = createGit({ root, log: createLogger('silent'), gitBinary: script });
    await git.init('a/b.git', 'main');
    const files = [{ action: 'create' as const, path: 'a', content: 'a' }];
    const change = { branch: 'main', parent: null, message: 'Change', author: ada, committer: ada, files };
    const head = await git.commitFiles('a/b.git', change);
    await git.close();
    expect(await readFile(failures, 'utf8')).toContain('No such file or directory');
    await runGit(join(root, 'a/b.git'), 'fsck', '--strict', head);
  });

  it('takes one process once the repository is in use, and none for branches and what is asked about it', async () => {
    const script = join(bench.folder, 'counting-git');
    const log = join(bench.folder, 'commands');
    await writeFile(
      script,
      `#!/bin/sh\nfor each; do case $each in *-*) echo "$each" >> '${log}';; esac; done\nexec git "$@"\n`,
    );
    await chmod(script, 0o755);
    await writeFile(log, '');
    const git = createGit({ root: join(bench.folder, 'counted'), log: createLogger('silent'), gitBinary: script });
    const commands = async () =>
      (await readFile(log, 'utf8')).split('\n').filter((each) => /^(?:[a-z]+-)+[a-z]+$/.test(each));
    await git.init('a/b.git', 'main');
    const commit = (parent: string | null, content: string) =>
      git.commitFiles('a/b.git', {
        branch: 'main',
        parent,
        message: 'Change',
        author: ada,
        committer: ada,
        files: [{ action: parent === null ? 'create' : 'update', path: 'x/y', content }],
      });
    const first = await commit(null, 'one');
    const second = await commit(first, 'two');
    // The objects that were just written are in memory. This opens the process that reads.
    await git.resolve('a/b.git', 'refs/heads/main');
    await writeFile(log, '');
    const third = await commit(second, 'three');
    expect(await commands()).toEqual(['unpack-objects']);
    await git.updateRefs('a/b.git', [{ ref: 'refs/heads/topic', oldOid: null, newOid: third }]);
    expect(await git.resolve('a/b.git', 'refs/heads/none')).toBeNull();
    expect(await git.newCommits('a/b.git', third, second)).toMatchObject({ total: 1, commits: [{ id: third }] });
    expect(await git.newCommits('a/b.git', third, null, { excludeRefs: ['refs/heads/topic'] })).toMatchObject({
      total: 0,
    });
    await git.changedFiles('a/b.git', [third]);
    const range = { from: third, not: [first] };
    expect(await git.countCommits('a/b.git', range)).toBe(2);
    expect(await git.listCommits('a/b.git', { ...range, limit: 1 })).toMatchObject([{ id: third }]);
    expect(await git.mergeBase('a/b.git', [third, first])).toBe(first);
    expect(await git.isAncestor('a/b.git', first, third)).toBe(true);
    expect(await git.lastCommitOf('a/b.git', third, 'x')).toBe(third);
    for await (const file of git.allFiles('a/b.git', third)) expect(file).toMatchObject({ path: 'x/y', size: 5 });
    for await (const changed of git.changedPaths('a/b.git', first, third)) expect(changed).toBe('x/y');
    expect(await git.renames('a/b.git', first, third)).toEqual(new Map());
    expect(await git.diskSize('a/b.git')).toBeGreaterThan(0);
    expect(await commands()).toEqual(['unpack-objects']);
    await git.close();
  });
});

describe('a ref of a repository', () => {
  it('is updated by one process at a time, and by a new one when that process has ended', async () => {
    const { path, directory } = await newRepository();
    const head = await commitOn(path, null, [{ action: 'create', path: 'a', content: 'a' }]);
    const create = (name: string) =>
      bench.git.updateRefs(path, [{ ref: `refs/heads/${name}`, oldOid: null, newOid: head }]);
    const names = Array.from({ length: 20 }, (_, n) => `branch-${n}`);
    const results = await Promise.allSettled([...names, 'branch-3', 'main/below', ...names].map(create));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
    for (const result of results) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ reason: 'conflict' });
    }
    expect((await runGit(directory, 'for-each-ref', 'refs/heads')).split('\n')).toHaveLength(21);
    await create('after');
    expect(await bench.git.resolve(path, 'refs/heads/after')).toBe(head);
  });

  it('is read again after the repository was replaced', async () => {
    const { path } = await newRepository();
    const head = await commitOn(path, null, [{ action: 'create', path: 'a', content: 'a' }]);
    await bench.git.remove(path);
    await bench.git.init(path, 'main');
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBeNull();
    await expect(
      bench.git.updateRefs(path, [{ ref: 'refs/heads/main', oldOid: null, newOid: head }]),
    ).rejects.toMatchObject({ name: 'GitError' });
    expect(await commitOn(path, null, [{ action: 'create', path: 'a', content: 'a' }])).toBe(head);
  });
});

describe('an empty repository', () => {
  it('matches one that git itself creates', async () => {
    const { path, directory } = await newRepository();
    const own = join(bench.folder, 'own.git');
    await runGit(bench.folder, 'init', '--quiet', '--bare', '--template=', '--initial-branch=main', own);
    for (const file of ['HEAD', 'config']) {
      expect(await readFile(join(directory, file), 'utf8')).toBe(await readFile(join(own, file), 'utf8'));
    }
    expect(await bench.git.isEmpty(path)).toBe(true);
    await runGit(directory, 'fsck', '--strict');
  });
});
