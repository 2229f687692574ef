import { execFile } from 'node:child_process';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TreeEntry } from '#platform/git/objects.ts';
import { quoteName, unquoteName } from '#platform/git/quoted-names.ts';
import { commitFile, fastImport, type GitBench, openBench, runGit, workTree } from './git-support.ts';

let bench: GitBench;
let counter = 0;
const newPath = () => `@hashed/ab/cd/${++counter}.git`;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

const pushed = async (tree: string): Promise<string> => {
  const path = newPath();
  await bench.git.init(path, 'main');
  await runGit(tree, 'push', '-q', join(bench.root, path), '--all');
  return path;
};

const commitAll = async (tree: string, message: string): Promise<string> => {
  await runGit(tree, 'add', '--all');
  await runGit(tree, 'commit', '-q', '-m', message);
  return runGit(tree, 'rev-parse', 'HEAD');
};

describe('names of files', () => {
  it('are quoted as git does, and decoded again', async () => {
    const names = [
      'plain',
      'with space',
      "it's~[x]",
      'ü',
      '日本',
      '"',
      'back\\slash',
      '\t',
      'a\nb',
      '\u0001',
      '\u007f',
    ];
    const tree = await workTree(bench.folder);
    for (const name of names) await writeFile(join(tree, name), 'x');
    await commitAll(tree, 'names');
    const listed = (await runGit(tree, 'ls-tree', '--name-only', 'HEAD')).split('\n');
    expect(listed).toEqual(expect.arrayContaining(names.map(quoteName)));
    expect(names.map((name) => unquoteName(quoteName(name)))).toEqual(names);
  });
});

describe('refs that exist', () => {
  it('are found in files of their own and packed, and nothing else is', async () => {
    const tree = await workTree(bench.folder);
    await writeFile(join(tree, 'a'), 'x');
    const oid = await commitAll(tree, 'one');
    const path = await pushed(tree);
    const packed = ['refs/heads/packed', 'refs/tags/packed'];
    const loose = ['refs/heads/main', 'refs/heads/folder/loose', 'refs/pipelines/7'];
    for (const ref of packed) await runGit(join(bench.root, path), 'update-ref', ref, oid);
    await runGit(join(bench.root, path), 'pack-refs', '--all');
    for (const ref of loose.slice(1)) await runGit(join(bench.root, path), 'update-ref', ref, oid);
    const missing = ['refs/heads/none', 'refs/heads/folder', 'refs/heads/../../config', 'HEAD'];
    expect([...(await bench.git.existingRefs(path, [...packed, ...missing, ...loose]))].sort()).toEqual(
      [...packed, ...loose].sort(),
    );
    expect([...(await bench.git.existingRefs(path, []))]).toEqual([]);
  });
});

describe('changes between commits', () => {
  it('names every path, also both of a moved file', async () => {
    const tree = await workTree(bench.folder);
    await writeFile(join(tree, 'old\nname'), 'line\n'.repeat(20));
    const from = await commitAll(tree, 'before');
    await rename(join(tree, 'old\nname'), join(tree, 'ü'));
    await writeFile(join(tree, 'added'), 'x');
    const to = await commitAll(tree, 'after');
    const path = await pushed(tree);
    const between = async (start: string | null, end: string) => {
      const names: string[] = [];
      for await (const name of bench.git.changedPaths(path, start, end)) names.push(name);
      return names;
    };
    expect((await between(from, to)).sort()).toEqual(['added', 'old\nname', 'ü']);
    expect(await between(null, to)).toContain('added');
    expect(await between(to, to)).toEqual([]);
    await expect(between(from, '--output=x')).rejects.toThrow('not valid');
  });

  it('have one digest wherever they are, and another for any other byte', async () => {
    const tree = await workTree(bench.folder);
    const lines = Array.from({ length: 40 }, (_, at) => `line ${at}\n`);
    await writeFile(join(tree, 'file'), lines.join(''));
    await writeFile(join(tree, 'picture'), Buffer.from([0, 1]));
    const base = await commitAll(tree, 'base');
    const changed = (text: string, before = '') => `${before}${lines.join('').replace('line 20\n', text)}`;
    /** Commits on top of `onto`, and returns the digest of the changes since `onto`. */
    const digests: [string, string][] = [];
    const change = async (onto: string, text: string, picture: number, before = '') => {
      await runGit(tree, 'checkout', '-q', '--detach', onto);
      await writeFile(join(tree, 'file'), changed(text, before));
      await writeFile(join(tree, 'picture'), Buffer.from([0, picture]));
      const head = await commitAll(tree, 'change');
      await runGit(tree, 'branch', `b${digests.length}`, head);
      digests.push([onto, head]);
    };
    await runGit(tree, 'checkout', '-q', '--detach', base);
    await writeFile(join(tree, 'file'), `first\n${lines.join('')}`);
    const moved = await commitAll(tree, 'lines above');
    await change(base, 'other\n', 2);
    await change(moved, 'other\n', 2, 'first\n');
    await change(base, 'other \n', 2);
    await change(base, 'other\n', 3);
    const path = await pushed(tree);
    const [first, rebased, space, picture] = await Promise.all(
      digests.map(([from, to]) => bench.git.patchId(path, from, to)),
    );
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(rebased).toBe(first);
    expect(new Set([first, space, picture]).size).toBe(3);
    expect(await bench.git.patchId(path, base, base)).toBeNull();
  });
});

describe('diffs', () => {
  it('reports files that were added, deleted, moved or changed in mode or type, and names that look like a diff', async () => {
    const tree = await workTree(bench.folder);
    const hostile = 'new\ndiff --git x x\n"quoted\\ü';
    await Promise.all([
      writeFile(join(tree, 'gone'), 'a\n'),
      writeFile(join(tree, 'old name'), `${'line\n'.repeat(20)}`),
      writeFile(join(tree, 'run'), '#!/bin/sh\n'),
      writeFile(join(tree, 'link'), 'a file\n'),
      writeFile(join(tree, hostile), 'before\n'),
    ]);
    const from = await commitAll(tree, 'before');
    await rm(join(tree, 'gone'));
    await rm(join(tree, 'link'));
    await rename(join(tree, 'old name'), join(tree, 'new name'));
    await symlink('README.md', join(tree, 'link'));
    await writeFile(join(tree, hostile), 'after');
    await writeFile(join(tree, 'picture'), Buffer.from([0, 1, 2]));
    await runGit(tree, 'update-index', '--chmod=+x', 'run');
    await runGit(tree, 'config', 'core.fileMode', 'false');
    const to = await commitAll(tree, 'after');
    const path = await pushed(tree);

    const { files, total, overflow } = await bench.git.diff(path, from, to);
    expect([total, overflow]).toEqual([7, false]);
    const byPath = (name: string) => files.filter((file) => file.new_path === name);
    expect(byPath('gone')).toMatchObject([
      { deleted_file: true, a_mode: '100644', b_mode: '0', diff: '@@ -1 +0,0 @@\n-a\n' },
    ]);
    expect(byPath('new name')).toMatchObject([{ old_path: 'old name', renamed_file: true, diff: '' }]);
    expect(byPath('run')).toMatchObject([{ a_mode: '100644', b_mode: '100755', diff: '' }]);
    expect(byPath('link')).toMatchObject([
      { deleted_file: true, a_mode: '100644', diff: '@@ -1 +0,0 @@\n-a file\n' },
      { new_file: true, b_mode: '120000' },
    ]);
    expect(byPath('picture')).toMatchObject([
      { new_file: true, diff: 'Binary files /dev/null and b/picture differ\n' },
    ]);
    expect(byPath(hostile)).toMatchObject([
      { diff: '@@ -1 +1 @@\n-before\n+after\n\\ No newline at end of file\n', new_file: false },
    ]);
    expect(byPath('x')).toEqual([]);

    const page = await bench.git.diff(path, from, to, { skip: 1, limit: 2 });
    expect(page.files).toEqual(files.slice(1, 3));
    expect((await bench.git.diff(path, from, to, { skip: 50, limit: 2 })).files).toEqual([]);
    expect((await bench.git.diff(path, null, from)).files.every((file) => file.new_file)).toBe(true);
    expect(await bench.git.diff(path, to, to)).toEqual({ files: [], total: 0, overflow: false });
    await expect(bench.git.diff(path, '--output=/tmp/x', to)).rejects.toMatchObject({ reason: 'invalid' });
  });

  it('truncates diffs that are too large, singly or in total, and long lines', async () => {
    const tree = await workTree(bench.folder);
    const from = await runGit(tree, 'rev-parse', 'HEAD');
    await writeFile(join(tree, 'a'), 'x'.repeat(300_000));
    await writeFile(join(tree, 'b'), 'short\n');
    for (let n = 0; n < 8; n++) await writeFile(join(tree, `c${n}`), 'y\n'.repeat(8_000));
    const to = await commitAll(tree, 'large');
    const path = await pushed(tree);
    const { files, overflow } = await bench.git.diff(path, from, to);
    expect(overflow).toBe(true);
    expect(files.map(({ new_path, too_large, collapsed }) => [new_path, too_large, collapsed])).toEqual([
      ['a', true, false],
      ['b', false, false],
      ...Array.from({ length: 6 }, (_, n) => [`c${n}`, false, false]),
      ['c6', false, true],
      ['c7', false, true],
    ]);
    expect(files[0]?.diff).toBe('');
    const tight = await bench.git.diff(path, from, to, { maxFiles: 3, maxLines: 8_000, maxPatchBytes: 400_000 });
    expect(tight.files.map(({ new_path, too_large, collapsed }) => [new_path, too_large, collapsed])).toEqual([
      ['a', false, false],
      ['b', false, false],
      ['c0', false, true],
    ]);
    expect([tight.total, tight.overflow]).toEqual([3, true]);
    expect(await bench.git.commitStats(path, [to, from, 'f'.repeat(39)])).toEqual(
      new Map([
        [to, { additions: 64_002, deletions: 0, total: 64_002 }],
        [from, { additions: 1, deletions: 0, total: 1 }],
      ]),
    );
  });
});

describe('trees', () => {
  const all = async (entries: AsyncIterable<TreeEntry>) => {
    const paths: string[] = [];
    for await (const { path, type } of entries) paths.push(`${type} ${path}`);
    return paths;
  };

  it('lists folders, files and submodules, whatever their names', async () => {
    const tree = await workTree(bench.folder);
    await mkdir(join(tree, 'docs/deep'), { recursive: true });
    await writeFile(join(tree, 'docs/deep/file'), 'x');
    await writeFile(join(tree, 'docs/a\nb'), 'y');
    await writeFile(join(tree, ':(glob)*'), 'z');
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'update-index', '--add', '--cacheinfo', `160000,${first},aaa`);
    await runGit(tree, 'add', 'docs', '--', ':(literal):(glob)*');
    await runGit(tree, 'commit', '-q', '-m', 'more');
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    const path = await pushed(tree);
    const root = await runGit(tree, 'rev-parse', 'HEAD^{tree}');
    expect(await all(bench.git.walkTree(path, root))).toEqual([
      'tree docs',
      'blob :(glob)*',
      'blob README.md',
      'commit aaa',
    ]);
    expect(await all(bench.git.walkTree(path, root, { recursive: true, prefix: 'p/' }))).toEqual([
      'tree p/docs',
      'tree p/docs/deep',
      'blob p/:(glob)*',
      'blob p/README.md',
      'blob p/docs/a\nb',
      'blob p/docs/deep/file',
      'commit p/aaa',
    ]);
    const found = await bench.git.findFiles(path, head, [
      'docs/a\nb',
      'docs',
      '../x',
      '/etc',
      'docs/',
      ':(glob)*',
      '-x',
    ]);
    expect([...found.keys()].sort()).toEqual([':(glob)*', 'docs', 'docs/a\nb']);
    for (const name of ['..', 'a/../b', './README.md', '', '/README.md', 'a\0b']) {
      expect(await bench.git.findFile(path, head, name)).toBeNull();
    }
    const blob = found.get(':(glob)*')?.oid ?? '';
    expect(await bench.git.findObject(path, blob.slice(0, 8))).toEqual({ oid: blob, type: 'blob', size: 1 });
    expect(await bench.git.readBytes(path, blob, 10)).toEqual(Buffer.from('z'));
    await expect(bench.git.readBytes(path, blob, 0)).rejects.toMatchObject({ reason: 'too_large' });
    expect(await bench.git.readBytes(path, head, 10)).toBeNull();
  });

  it('does not take a branch for an object with the same name', async () => {
    const tree = await workTree(bench.folder);
    await runGit(tree, 'branch', 'abcdef1');
    expect(await bench.git.findObject(await pushed(tree), 'abcdef1')).toBeNull();
  });
});

describe('blame and history', () => {
  it('finds who last changed each line', async () => {
    const tree = await workTree(bench.folder);
    const first = await commitFile(tree, 'poem', 'one\ntwo\nthree\n', 'first');
    const second = await commitFile(tree, 'poem', 'one\n2\nthree\n\tfour', 'second');
    const path = await pushed(tree);
    expect(await bench.git.blame(path, second, 'poem')).toEqual([
      { oid: first, lines: ['one'] },
      { oid: second, lines: ['2'] },
      { oid: first, lines: ['three'] },
      { oid: second, lines: ['\tfour'] },
    ]);
    const range = (start: number, end: number) => bench.git.blame(path, second, 'poem', { range: { start, end } });
    expect(await range(2, 3)).toEqual([
      { oid: second, lines: ['2'] },
      { oid: first, lines: ['three'] },
    ]);
    expect(await range(4, 400)).toEqual([{ oid: second, lines: ['\tfour'] }]);
    expect(await range(5, 6)).toEqual([]);
    expect(await bench.git.lastCommitOf(path, second, 'README.md')).not.toBe(second);
    expect(await bench.git.lastCommitOf(path, second, 'absent')).toBeNull();
  });

  it('finds merge bases, the refs that contain a commit, authors and signatures', async () => {
    const tree = await workTree(bench.folder);
    const base = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'checkout', '-q', '-b', 'side');
    const side = await commitFile(tree, 'side', 's', 'on the side');
    await runGit(tree, 'checkout', '-q', 'main');
    const main = await commitFile(tree, 'main', 'm', 'on main');
    await runGit(tree, 'checkout', '-q', '--orphan', 'other');
    const other = await commitFile(tree, 'other', 'o', 'unrelated');
    const path = await pushed(tree);
    expect(await bench.git.mergeBase(path, [main, side])).toBe(base);
    expect(await bench.git.mergeBase(path, [main, other])).toBeNull();
    expect(await bench.git.refsContaining(path, base, 'refs/heads/')).toEqual(['refs/heads/main', 'refs/heads/side']);
    expect(await bench.git.authors(path, { from: main })).toEqual([
      { name: 'Ada', email: 'ada@example.com', commits: 2 },
    ]);
    expect(await bench.git.signatureOf(path, main)).toBeNull();
    const titles = async (range: { from: string[]; all?: boolean; not?: string[] }) =>
      (await bench.git.listCommits(path, { ...range, limit: 10 })).map(({ title }) => title).sort();
    expect(await titles({ from: [], all: true })).toEqual(['First commit', 'on main', 'on the side', 'unrelated']);
    expect(await titles({ from: [main, side], not: [base] })).toEqual(['on main', 'on the side']);

    await fastImport(join(bench.root, path), `commit refs/heads/odd\ncommitter Bob <> 1706688000 +0000\ndata 0\n\n`);
    expect((await bench.git.authors(path, { from: (await bench.git.resolveCommit(path, 'odd')) ?? '' })).length).toBe(
      1,
    );
  });
});

describe('streams', () => {
  it('keeps output until somebody reads it, even long after the process has ended', async () => {
    const tree = await workTree(bench.folder);
    const path = await pushed(tree);
    const oid = await runGit(tree, 'rev-parse', 'HEAD:README.md');
    const blobs = await Promise.all(Array.from({ length: 8 }, () => bench.git.readBlob(path, oid)));
    // Run another git command, so that those processes have ended before anyone reads.
    await runGit(tree, 'gc', '--quiet');
    for (const blob of blobs) expect(String(blob && (await buffer(blob.stream)))).toBe('# Hello\n');
  });
});

describe('archives', () => {
  const run = promisify(execFile);

  it('packs a commit or one folder of it, and runs nothing that a file asks for', async () => {
    const tree = await workTree(bench.folder);
    await mkdir(join(tree, 'docs'));
    await writeFile(join(tree, 'docs/-page'), 'x');
    await writeFile(join(tree, '.gitattributes'), 'version export-subst\nsecret export-ignore\n');
    await writeFile(join(tree, 'secret'), 's');
    await writeFile(join(tree, 'version'), '$Format:%H %G?$\n');
    const head = await commitAll(tree, 'all');
    const path = await pushed(tree);
    const formats = bench.git.archiveFormats();
    expect(formats).toEqual(expect.arrayContaining(['zip', 'tar.gz', 'tar']));
    for (const format of formats) {
      const stream = bench.git.archive(path, { commit: head, format, prefix: 'a-main/' });
      const file = join(bench.folder, `archive.${format}`);
      await writeFile(file, await buffer(stream));
      const list = format === 'zip' ? ['python3', '-m', 'zipfile', '-l', file] : ['tar', 'tf', file];
      const { stdout } = await run(list[0] ?? '', list.slice(1));
      expect(stdout).toContain('a-main/docs/-page');
      expect(stdout).not.toContain('secret');
    }
    const folder = await buffer(bench.git.archive(path, { commit: head, format: 'tar', prefix: 'p/', folder: 'docs' }));
    expect(folder.includes('p/docs/-page')).toBe(true);
    expect(folder.includes('README.md')).toBe(false);
    const whole = await buffer(bench.git.archive(path, { commit: head, format: 'tar', prefix: '' }));
    expect(whole.includes(`${head} N`)).toBe(true);
    expect(() => bench.git.archive(path, { commit: '--remote=x', format: 'tar', prefix: '' })).toThrow();
  });
});

describe('many merges at once', () => {
  it('finds which heads merge cleanly and how many commits each has, also beside one without a common ancestor', async () => {
    const tree = await workTree(bench.folder);
    const head = () => runGit(tree, 'rev-parse', 'HEAD');
    await commitFile(tree, 'both', 'a\n', 'Start');
    await runGit(tree, 'checkout', '-q', '-b', 'clean');
    await commitFile(tree, 'own', 'x\n', 'First');
    await commitFile(tree, 'own', 'y\n', 'Second');
    const clean = await head();
    await runGit(tree, 'checkout', '-q', '-b', 'conflict', 'main');
    await commitFile(tree, 'both', 'theirs\n', 'Theirs');
    const conflict = await head();
    await runGit(tree, 'checkout', '-q', 'main');
    await commitFile(tree, 'both', 'ours\n', 'Ours');
    const target = await head();
    await runGit(tree, 'checkout', '-q', '--orphan', 'lone');
    const lone = await commitAll(tree, 'Alone');
    const path = await pushed(tree);
    const { git } = bench;
    expect(await git.mergeableInto(path, target, [clean, conflict, clean])).toEqual(new Set([clean]));
    expect(await git.mergeableInto(path, target, [conflict, lone, clean])).toEqual(new Set([clean]));
    expect(await git.commitsAhead(path, target, [clean, conflict, lone, target])).toEqual(
      new Map([
        [clean, 2],
        [conflict, 1],
        [lone, 1],
        [target, 0],
      ]),
    );
    await expect(git.mergeableInto(path, target, ['--stdin'])).rejects.toThrow('not valid');
    const person = { name: 'P', email: 'p@example.com', date: new Date('2025-01-01Z') };
    const merge = { message: 'Merge', author: person, committer: person };
    for (const theirs of [conflict, lone])
      expect(await git.mergeCommits(path, { ours: target, theirs, merge })).toEqual({ failed: 'conflict' });
    await expect(git.mergeCommits(path, { ours: target, theirs: 'f'.repeat(40), merge })).rejects.toThrow();
  });
});
