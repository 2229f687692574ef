import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createGit, type Git } from '#platform/git/git.ts';
import { createLogger } from '#platform/log.ts';
import {
  bundleOf,
  commitOf,
  commitOfLargeDelta,
  commitOfManyFiles,
  packed,
  packOf,
  pushOf,
  treeEntry,
} from '../support/packs.ts';
import { type GitBench, openBench } from './git-support.ts';

let bench: GitBench;
let repositories = 0;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

const fresh = async (git: Git = bench.git): Promise<string> => {
  repositories += 1;
  const path = `limits-${repositories}.git`;
  await git.init(path, 'main');
  return path;
};

const push = async (path: string, body: Buffer) => {
  const served = await bench.git.serve(path, 'git-receive-pack', Readable.from([body]));
  const chunks: Buffer[] = [];
  for await (const chunk of served.stream) chunks.push(chunk);
  return { answer: Buffer.concat(chunks).toString('latin1'), result: await served.done };
};

describe('a file that unpacks to more than git may hold', () => {
  it('is refused in a push, with the reason', async () => {
    const path = await fresh();
    const { oid, pack } = commitOfLargeDelta(250);
    expect(pack.length).toBeLessThan(1_000);
    const { answer, result } = await push(path, pushOf('refs/heads/main', oid, pack));
    expect(answer).toContain('takes more memory than the hub gives to git');
    expect(result.updates).toEqual([]);
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBeNull();
  });

  it('is refused in a bundle, which leaves no repository', async () => {
    const { oid, pack } = commitOfLargeDelta(250);
    const bundle = Readable.from([bundleOf(oid, pack)]);
    const fetched = bench.git.fetchBundle('limits-bundle.git', bundle);
    await expect(fetched).rejects.toMatchObject({ reason: 'too_large', message: expect.stringContaining('memory') });
    expect(await bench.git.exists('limits-bundle.git')).toBe(false);
  });

  it('is taken where git may hold it', async () => {
    const path = await fresh();
    const { oid, pack } = commitOfLargeDelta(32);
    const { result } = await push(path, pushOf('refs/heads/main', oid, pack));
    expect(result.updates).toHaveLength(1);
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBe(oid);
  });

  it('is refused from the size on that the operator sets', async () => {
    const git = createGit({ root: join(bench.folder, 'small'), log: createLogger('silent'), memoryMiB: 64 });
    const { oid, pack } = commitOfLargeDelta(100);
    const fetched = git.fetchBundle('small.git', Readable.from([bundleOf(oid, pack)]));
    await expect(fetched).rejects.toMatchObject({ reason: 'too_large' });
    await git.close();
  });
});

describe('a commit of a million files in 550 bytes', () => {
  const many = commitOfManyFiles(6);
  const stored = async () => {
    const path = await fresh();
    await bench.git.fetchBundle(path, Readable.from([bundleOf(many.oid, many.pack)]));
    return path;
  };

  it('is counted without being walked', async () => {
    expect(many.pack.length).toBeLessThan(600);
    const objects = bench.git.newObjects(await stored());
    expect(await objects.tipBeyond([many.oid], 1_111_109)).toBe(many.oid);
    expect(await objects.tipBeyond([many.oid], 1_111_110)).toBeNull();
    expect(await objects.tipBeyond([many.tree], 1_000)).toBe(many.tree);
  });

  it('is refused in a bundle where so many are not allowed, which leaves no repository', async () => {
    const bundle = Readable.from([bundleOf(many.oid, many.pack)]);
    const fetched = bench.git.fetchBundle('limits-many.git', bundle, { maxFiles: 500_000 });
    await expect(fetched).rejects.toMatchObject({
      reason: 'too_large',
      message: 'The repository bundle is too large: a branch or tag holds more than 500000 files',
    });
    expect(await bench.git.exists('limits-many.git')).toBe(false);
  });

  it('has the files that it changes listed as far as git gets, where it stands in a history', async () => {
    const path = await stored();
    const changed = (await bench.git.changedFiles(path, [many.oid])).get(many.oid);
    expect(changed?.added.length ?? 0).toBeLessThanOrEqual(5_000);
    await expect(bench.git.commitStats(path, [many.oid])).rejects.toMatchObject({ reason: 'too_large' });
    await expect(bench.git.diff(path, null, many.oid)).rejects.toMatchObject({ reason: 'too_large' });
  });
});

it('the files and folders of a history are counted as they are, also when most of it was there before', async () => {
  const path = await fresh();
  const { oid, pack, tree } = commitOfManyFiles(3);
  await push(path, pushOf('refs/heads/main', oid, pack));
  const root = packed('tree', Buffer.concat(['a', 'b', 'c'].map((name) => treeEntry('40000', name, tree))));
  const commit = commitOf(root.oid, oid);
  await push(path, pushOf('refs/heads/next', commit.oid, packOf([root, commit])));
  const objects = bench.git.newObjects(path);
  expect(await objects.tipBeyond([oid, commit.oid], 3 * 1_110 + 3)).toBeNull();
  expect(await objects.tipBeyond([oid, commit.oid], 3 * 1_110 + 2)).toBe(commit.oid);
});
