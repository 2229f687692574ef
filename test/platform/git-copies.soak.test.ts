import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commitFile, type GitBench, openBench, runGit, tryGit, workTree } from './git-support.ts';

let bench: GitBench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

let counter = 0;
const newPath = () => `@hashed/33/${++counter}.git`;
const refsOf = (path: string) => runGit(join(bench.root, path), 'for-each-ref', '--format=%(objectname) %(refname)');

const source = async () => {
  const tree = await workTree(bench.folder);
  await runGit(tree, 'tag', '-a', '-m', 'One', 'v1');
  await runGit(tree, 'branch', 'topic', 'HEAD');
  const path = newPath();
  await bench.git.init(path, 'main');
  await runGit(tree, 'push', '-q', join(bench.root, path), '--all');
  await runGit(tree, 'push', '-q', join(bench.root, path), '--tags');
  return { tree, path, directory: join(bench.root, path) };
};

describe('a copy of a repository', () => {
  it('has the branches and tags, and no other refs or files', async () => {
    const { path, directory } = await source();
    await runGit(directory, 'update-ref', 'refs/merge-requests/1/head', 'HEAD');
    await mkdir(join(directory, 'objects', 'tmp_objdir-incoming-x'), { recursive: true });
    await writeFile(join(directory, 'objects', 'pack', 'tmp_pack_x'), 'half');
    await writeFile(join(directory, 'hooks-of-somebody'), '#!/bin/sh');
    const to = newPath();
    await bench.git.init(to, 'old');
    expect(await bench.git.copyRepository(path, to, { defaultBranch: 'topic' })).toEqual({ branches: 2 });
    const copied = await readdir(join(bench.root, to), { recursive: true });
    expect(copied.filter((name) => /tmp_|incoming|somebody|alternates/.test(name))).toEqual([]);
    expect((await refsOf(to)).split('\n').map((line) => line.split(' ')[1])).toEqual([
      'refs/heads/main',
      'refs/heads/topic',
      'refs/tags/v1',
    ]);
    expect(await bench.git.head(to)).toBe('topic');
    await runGit(join(bench.root, to), 'fsck', '--full', '--strict');
    expect(await readdir(join(bench.root, '@hashed/33'))).not.toContainEqual(expect.stringContaining('incoming'));
  });

  it('has only the commits of one branch if only that is copied', async () => {
    const { path, tree, directory } = await source();
    await runGit(tree, 'checkout', '-q', 'topic');
    const secret = await commitFile(tree, 'secret', 'x', 'Not for main');
    await runGit(tree, 'push', '-q', directory, 'topic');
    const to = newPath();
    await bench.git.copyRepository(path, to, { branch: 'main', defaultBranch: 'topic' });
    expect((await refsOf(to)).split('\n')).toHaveLength(1);
    expect(await bench.git.head(to)).toBe('main');
    expect((await tryGit(join(bench.root, to), 'cat-file', '-e', secret)).code).not.toBe(0);
    await expect(
      bench.git.copyRepository(path, newPath(), { branch: 'absent', defaultBranch: 'main' }),
    ).rejects.toMatchObject({ reason: 'missing' });
    await expect(
      bench.git.copyRepository(path, newPath(), { branch: '--all', defaultBranch: 'main' }),
    ).rejects.toMatchObject({ reason: 'invalid' });
  });

  it('is complete even if the source is repacked and pushed to meanwhile', async () => {
    const { path, tree, directory } = await source();
    let stopped = false;
    const busy = (async () => {
      for (let n = 0; !stopped; n++) {
        await commitFile(tree, `${n}.txt`, `${n}`, `Commit ${n}`);
        await runGit(tree, 'push', '-q', directory, 'HEAD:main', `HEAD:refs/heads/b${n}`);
        await promisify(execFile)('git', ['repack', '-q', '-a', '-d'], { cwd: directory });
        await promisify(execFile)('git', ['prune-packed', '-q'], { cwd: directory });
      }
    })();
    try {
      for (let n = 0; n < 8; n++) {
        const to = newPath();
        await bench.git.copyRepository(path, to, { defaultBranch: 'main' });
        await runGit(join(bench.root, to), 'fsck', '--full', '--strict');
      }
    } finally {
      stopped = true;
      await busy;
    }
  });

  it('leaves the existing repository unchanged if it fails', async () => {
    const { path } = await source();
    const before = await refsOf(path);
    await expect(bench.git.copyRepository(newPath(), path, { defaultBranch: 'main' })).rejects.toMatchObject({
      reason: 'missing',
    });
    expect(await refsOf(path)).toBe(before);
    const controller = new AbortController();
    controller.abort();
    const to = newPath();
    await expect(
      bench.git.copyRepository(path, to, { defaultBranch: 'main', signal: controller.signal }),
    ).rejects.toThrow();
    expect(existsSync(join(bench.root, to))).toBe(false);
  });
});
