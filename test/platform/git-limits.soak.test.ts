import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { forRequest, nameCaller } from '#platform/caller/caller.ts';
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
import { type GitBench, openBench, until } from './git-support.ts';

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
    expect(answer).toContain('needs more memory than the hub allows git');
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

  it('is accepted where git may hold it', async () => {
    const path = await fresh();
    const { oid, pack } = commitOfLargeDelta(32);
    const { result } = await push(path, pushOf('refs/heads/main', oid, pack));
    expect(result.updates).toHaveLength(1);
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBe(oid);
  });

  it('is refused from the size that the operator sets', async () => {
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

  it('is refused in a bundle that exceeds the limit on files, which leaves no repository', async () => {
    const bundle = Readable.from([bundleOf(many.oid, many.pack)]);
    const fetched = bench.git.fetchBundle('limits-many.git', bundle, { maxFiles: 500_000 });
    await expect(fetched).rejects.toMatchObject({
      reason: 'too_large',
      message: 'The repository bundle is too large: a branch or tag holds more than 500000 files',
    });
    expect(await bench.git.exists('limits-many.git')).toBe(false);
  });

  it('lists its changed files as far as git gets, if it is part of a stored history', async () => {
    const path = await stored();
    const changed = (await bench.git.changedFiles(path, [many.oid])).get(many.oid);
    expect(changed?.added.length ?? 0).toBeLessThanOrEqual(5_000);
    await expect(bench.git.commitStats(path, [many.oid])).rejects.toMatchObject({ reason: 'too_large' });
    await expect(bench.git.diff(path, null, many.oid)).rejects.toMatchObject({ reason: 'too_large' });
  });
});

it('a history has its files and folders counted correctly, even if most of them existed before', async () => {
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

describe('a process of git', () => {
  /** Creates a git that logs the start and the end of each command. */
  const counting = async () => {
    const folder = join(bench.folder, `counting-${repositories}`);
    const log = `${folder}.log`;
    const gitBinary = `${folder}.sh`;
    await writeFile(log, '');
    const script = `#!/bin/sh\necho "+ $*" >> '${log}'\ngit "$@"\nstatus=$?\necho "- $*" >> '${log}'\nexit $status\n`;
    await writeFile(gitBinary, script, { mode: 0o755 });
    const git = createGit({ root: folder, log: createLogger('silent'), gitBinary, processes: 3 });
    /** Returns how many processes ran the command, and how many ran at once at most. */
    const counted = async (command: string) => {
      const lines = (await readFile(log, 'utf8')).split('\n').filter((line) => line.includes(` ${command} `));
      let [running, started, most] = [0, 0, 0];
      for (const line of lines) {
        running += line.startsWith('+') ? 1 : -1;
        started += line.startsWith('+') ? 1 : 0;
        most = Math.max(most, running);
      }
      return { started, most };
    };
    return { git, counted };
  };
  const silent = () => new Readable({ read() {} });
  const FETCH = '0014command=ls-refs\n0000';

  it('starts for a fetch only after the request has arrived, and one at a time for each caller', async () => {
    const { git, counted } = await counting();
    const path = await fresh(git);
    const bodies = Array.from({ length: 20 }, silent);
    const answers = forRequest(() => {
      nameCaller({ userId: null, isSystem: false }, { ip: '192.0.2.1', userAgent: null });
      return bodies.map((body) => git.serve(path, 'git-upload-pack', body, { gitProtocol: 'version=2' }));
    });
    for (const body of bodies.slice(1)) body.push(FETCH);
    await new Promise((resolve) => setImmediate(resolve));
    expect(await counted('upload-pack')).toEqual({ started: 0, most: 0 });
    for (const body of bodies.slice(1)) body.push(null);
    await Promise.all(
      answers.slice(1).map(async (answer) => {
        const { stream, done } = await answer;
        stream.resume();
        await done;
      }),
    );
    expect(await counted('upload-pack')).toEqual({ started: 19, most: 1 });
    bodies[0]?.destroy();
    await expect(answers[0]).rejects.toThrow();
    await git.close();
  });

  it('starts for a push only after the pack has begun to arrive', async () => {
    const { git, counted } = await counting();
    const path = await fresh(git);
    const { oid, pack } = commitOfManyFiles(1);
    const body = silent();
    let judged = false;
    const onRefUpdates = async () => {
      judged = true;
      return {};
    };
    const served = git.serve(path, 'git-receive-pack', body, { onRefUpdates });
    body.push(pushOf('refs/heads/main', oid, Buffer.alloc(0)));
    await until(() => judged);
    expect(await counted('receive-pack')).toEqual({ started: 0, most: 0 });
    body.push(pack);
    body.push(null);
    const { stream, done } = await served;
    stream.resume();
    expect((await done).updates).toHaveLength(1);
    expect(await counted('receive-pack')).toEqual({ started: 1, most: 1 });
    await git.close();
  });
});
