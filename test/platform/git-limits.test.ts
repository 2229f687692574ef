import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createGit, type Git } from '#platform/git/git.ts';
import { createLogger } from '#platform/log.ts';
import { bundleOf, commitOfLargeDelta, pushOf } from '../support/packs.ts';
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
    const { oid, pack } = commitOfLargeDelta(500);
    expect(pack.length).toBeLessThan(1_000);
    const { answer, result } = await push(path, pushOf('refs/heads/main', oid, pack));
    expect(answer).toContain('takes more memory than the hub gives to git');
    expect(result.updates).toEqual([]);
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBeNull();
  });

  it('is refused in a bundle, which leaves no repository', async () => {
    const { oid, pack } = commitOfLargeDelta(500);
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
