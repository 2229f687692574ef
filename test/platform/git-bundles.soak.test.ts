import { createReadStream, createWriteStream } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { commitFile, fastImport, type GitBench, openBench, runGit, tryGit, workTree } from './git-support.ts';

let bench: GitBench;
let path: string;
let counter = 0;

beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => {
  path = `@hashed/11/${++counter}.git`;
});

const newPath = () => `@hashed/22/${++counter}.git`;
const refsOf = (repository: string) =>
  runGit(join(bench.root, repository), 'for-each-ref', '--format=%(objectname) %(refname)');

const source = async (): Promise<string> => {
  const tree = await workTree(bench.folder);
  const first = await runGit(tree, 'rev-parse', 'HEAD');
  await commitFile(tree, 'b', 'b', 'Second');
  await runGit(tree, 'tag', '-a', '-m', 'One', 'v1');
  await runGit(tree, 'branch', 'feature/x', first);
  const repository = newPath();
  await bench.git.init(repository, 'main');
  await runGit(tree, 'push', '-q', join(bench.root, repository), '--all');
  await runGit(tree, 'push', '-q', join(bench.root, repository), '--tags');
  return repository;
};

const bundleOf = async (repository: string): Promise<string> => {
  const file = join(bench.folder, `${++counter}.bundle`);
  const bundle = await bench.git.createBundle(repository);
  await pipeline(bundle ?? [], createWriteStream(file));
  return file;
};

const nothingThere = async () => {
  expect(await bench.git.exists(path)).toBe(false);
  const left = await readdir(join(bench.root, '@hashed/11')).catch(() => []);
  expect(left.filter((name) => name.startsWith(`${counter}.`) || name.includes('incoming'))).toEqual([]);
};

describe('a bundle', () => {
  it('transfers branches and tags with the same ids', async () => {
    const repository = await source();
    const file = await bundleOf(repository);
    let bytes = 0;
    const fetched = await bench.git.fetchBundle(path, createReadStream(file), {
      onProgress: (total) => (bytes = total),
    });
    expect(fetched).toEqual({ branches: 2, tags: 1, skipped: [], others: [], defaultBranch: 'main' });
    expect(bytes).toBe((await readFile(file)).length);
    expect(await refsOf(path)).toBe(await refsOf(repository));
    expect(await bench.git.head(path)).toBe('main');
    await runGit(join(bench.root, path), 'fsck', '--strict');
    expect(await bundleOf(path).then((again) => bench.git.fetchBundle(newPath(), again))).toMatchObject({
      branches: 2,
      tags: 1,
    });
  });

  it('includes merge request and keep-around refs, which an import does not create by itself', async () => {
    const repository = await source();
    const oid = (await bench.git.resolve(repository, 'refs/heads/main')) ?? '';
    await bench.git.updateRefs(repository, [
      { ref: 'refs/merge-requests/1/head', newOid: oid },
      { ref: `refs/keep-around/${oid}`, newOid: oid },
    ]);
    const fetched = await bench.git.fetchBundle(path, await bundleOf(repository));
    expect(fetched.others.map(({ name }) => name).sort()).toEqual([
      `refs/keep-around/${oid}`,
      'refs/merge-requests/1/head',
    ]);
    expect(await refsOf(path)).not.toContain('merge-requests');
    await bench.git.updateRefs(path, [{ ref: 'refs/merge-requests/1/head', oldOid: null, newOid: oid }]);
  });

  it('does not exist for an empty repository, and may lack HEAD', async () => {
    await bench.git.init(path, 'main');
    expect(await bench.git.createBundle(path)).toBeNull();
    const repository = await source();
    await bench.git.setHead(repository, 'unborn');
    expect(await bench.git.fetchBundle(path, await bundleOf(repository))).toMatchObject({
      branches: 2,
      defaultBranch: 'main',
    });
  });

  it('keeps a default branch with another name', async () => {
    const repository = await source();
    const oid = (await bench.git.resolve(repository, 'refs/heads/main')) ?? '';
    await bench.git.updateRefs(repository, [
      { ref: 'refs/heads/trunk', newOid: oid },
      { ref: 'refs/heads/main', newOid: null },
    ]);
    await bench.git.setHead(repository, 'trunk');
    expect(await bench.git.fetchBundle(path, await bundleOf(repository))).toMatchObject({ defaultBranch: 'trunk' });
    expect(await bench.git.head(path)).toBe('trunk');
  });

  it('does not overwrite content unless told to', async () => {
    const repository = await source();
    const file = await bundleOf(repository);
    await bench.git.init(path, 'main');
    await bench.git.fetchBundle(path, file);
    const other = await bundleOf(await source());
    await bench.git.readCommits(path, [(await bench.git.resolveCommit(path, 'main')) ?? '']);
    await expect(bench.git.fetchBundle(path, other)).rejects.toMatchObject({ reason: 'conflict' });
    await bench.git.fetchBundle(path, other, { replace: true });
    expect(await bench.git.readCommits(path, [(await bench.git.resolveCommit(path, 'main')) ?? ''])).toHaveLength(1);
    expect((await readdir(join(bench.root, '@hashed/11'))).filter((name) => name.includes('incoming'))).toEqual([]);
  });

  it('transfers 2,000 branches', async () => {
    const repository = newPath();
    await bench.git.init(repository, 'main');
    const commit = 'commit refs/heads/main\nmark :1\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\n';
    await fastImport(
      join(bench.root, repository),
      commit + Array.from({ length: 2_000 }, (_, n) => `reset refs/heads/b${n}\nfrom :1\n\n`).join(''),
    );
    expect(await bench.git.fetchBundle(path, await bundleOf(repository))).toMatchObject({
      branches: 2_001,
      defaultBranch: 'main',
    });
  });
});

describe('a hostile bundle', () => {
  it('imports only branches and tags with valid names', async () => {
    const tree = await workTree(bench.folder);
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    const names = [
      `refs/heads/${'a'.repeat(40)}`,
      'refs/heads/HEAD',
      'refs/heads/refs/heads/x',
      `refs/tags/${'b'.repeat(64)}`,
    ];
    const foreign = [`refs/replace/${oid}`, 'refs/notes/x', 'refs/merge-requests/1/head'];
    const file = join(bench.folder, `${counter}.bundle`);
    await runGit(tree, 'bundle', 'create', '-q', file, 'refs/heads/main');
    // A forged bundle, because git itself would refuse to write most of these refs.
    const forged = Buffer.concat([
      Buffer.from('# v2 git bundle\n'),
      Buffer.from(
        [...names, ...foreign, 'refs/heads/--upload-pack=x/../y', 'refs/heads/main']
          .map((name) => `${oid} ${name}\n`)
          .join(''),
      ),
      Buffer.from(`${oid} HEAD\n`),
      (await readFile(file)).subarray((await readFile(file)).indexOf('\n\n') + 1),
    ]);
    const fetched = await bench.git.fetchBundle(path, Readable.from([forged]));
    expect(fetched).toMatchObject({ branches: 1, tags: 0, defaultBranch: 'main' });
    expect(fetched.skipped).toEqual([...names, 'refs/heads/--upload-pack=x/../y']);
    expect(fetched.others.map(({ name }) => name)).toEqual(foreign);
    expect(await refsOf(path)).toBe(`${oid} refs/heads/main`);
  });

  it('is refused when objects are missing or damaged', async () => {
    const file = await bundleOf(await source());
    const whole = await readFile(file);
    const attempts = [
      whole.subarray(0, whole.length - 30),
      whole.subarray(0, 40),
      Buffer.concat([whole.subarray(0, whole.length - 40), Buffer.alloc(40, 1)]),
      Buffer.from('# v2 git bundle\n'),
      Buffer.from('# v2 git bundle\n\n'),
      Buffer.from('no bundle at all'),
      Buffer.alloc(100_000, 'x'),
      Buffer.from(`# v2 git bundle\n-${'a'.repeat(40)} needed\n${'a'.repeat(40)} refs/heads/main\n\n`),
      Buffer.from(`# v3 git bundle\n@filter=blob:none\n${'a'.repeat(40)} refs/heads/main\n\n`),
      Buffer.from(
        whole.toString('latin1').replace(/^[0-9a-f]{40} refs\/heads\/main$/m, `${'a'.repeat(40)} refs/heads/main`),
        'latin1',
      ),
    ];
    for (const [at, attempt] of attempts.entries()) {
      const error: unknown = await bench.git
        .fetchBundle(path, Readable.from([attempt]))
        .catch((caught: unknown) => caught);
      expect(error, String(at)).toMatchObject({ name: 'GitError', reason: 'invalid' });
      expect(error instanceof Error ? error.message : '').toMatch(/^The repository bundle is broken: [a-z ,]+$/);
    }
    await nothingThere();
  });

  it('is refused when a tree contains .git, as fsck reports', async () => {
    const bad = join(bench.folder, `bad-${counter}`);
    await runGit(bench.folder, 'init', '-q', '--bare', bad);
    await fastImport(
      bad,
      `blob\nmark :1\ndata 1\nx\ncommit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\nM 100644 :1 .git/hooks/x\n`,
    );
    await runGit(bad, 'bundle', 'create', '-q', 'out', 'refs/heads/main');
    await expect(bench.git.fetchBundle(path, join(bad, 'out'))).rejects.toMatchObject({ reason: 'invalid' });
    await nothingThere();
  });

  it('is refused when the commits it names are incomplete', async () => {
    const tree = await workTree(bench.folder);
    await commitFile(tree, 'b', 'b', 'Second');
    const file = join(tree, 'thin');
    await runGit(tree, 'bundle', 'create', '-q', file, 'main', '^main~1');
    const thin = (await readFile(file, 'latin1')).replace(/^-[0-9a-f]{40}.*\n/m, '');
    await writeFile(file, thin, 'latin1');
    await expect(bench.git.fetchBundle(path, file)).rejects.toMatchObject({ reason: 'invalid' });
    await nothingThere();
  });

  it('is refused when refs clash, when it is too large or too slow, and when the caller aborts', async () => {
    const repository = await source();
    const file = await bundleOf(repository);
    const clash = (await readFile(file)).toString('latin1').replace('refs/heads/feature/x', 'refs/heads/main/a/b/');
    await expect(
      bench.git.fetchBundle(path, Readable.from([Buffer.from(clash.replace('main/a/b/', 'main/a/b2'), 'latin1')])),
    ).rejects.toMatchObject({ reason: 'invalid' });
    await expect(bench.git.fetchBundle(path, file, { maxInputBytes: 100 })).rejects.toMatchObject({
      reason: 'too_large',
    });
    await expect(bench.git.fetchBundle(path, file, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      reason: 'aborted',
    });
    const stalled = new Readable({ read() {} });
    stalled.push((await readFile(file)).subarray(0, -50));
    await expect(bench.git.fetchBundle(path, stalled, { timeoutMs: 200 })).rejects.toMatchObject({ reason: 'timeout' });
    await nothingThere();
    await expect(bench.git.fetchBundle(path, join(bench.folder, 'no-such-file'))).rejects.toThrow();
    await nothingThere();
  });

  it('never runs hooks or configuration that a repository contains', async () => {
    const repository = await source();
    await bench.git.fetchBundle(path, await bundleOf(repository));
    expect((await readdir(join(bench.root, path))).sort()).not.toContain('hooks');
    expect((await tryGit(join(bench.root, path), 'config', '--get-regexp', 'alias|hook')).stdout).toBe('');
  });
});
