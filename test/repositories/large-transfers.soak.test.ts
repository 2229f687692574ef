import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { filledProject } from './reading-support.ts';
import { remoteOf, runGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

describe('reading a large file', () => {
  it('is limited per caller, because it takes a process, and is refused with Retry-After beyond the limit', async () => {
    const { owner, path } = await filledProject(
      app(),
      folder(),
      { large: randomBytes(15_000_000), small: 'small' },
      { visibility: 'public' },
    );
    const client = app().as(owner);
    const url = path('/files/large/raw');
    const leaving = new AbortController();
    const open = await Promise.all(
      Array.from({ length: 10 }, async () =>
        fetch(`${app().url}/api/v4${url}`, {
          headers: { 'private-token': await app().tokenOf(owner) },
          signal: leaving.signal,
        }),
      ),
    );
    expect(open.map(({ status }) => status)).toEqual(Array(10).fill(200));
    const refused = await client.get(url);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10']);
    expect((await client.get(path('/files/small/raw'))).status).toBe(200);
    const stranger = app().as(await app().make.user());
    expect((await stranger.fetch('GET', url)).status).toBe(200);
    leaving.abort();
    await until('their places are free again', async () => (await client.fetch('GET', url)).status === 200);
  });
});

describe('a large archive', () => {
  it('is packed four times at once for a caller, and another when one is finished or aborted', async () => {
    const large = randomBytes(24 * 1024 * 1024);
    const { owner, path } = await filledProject(app(), folder(), { large });
    const client = app().as(owner);
    const open = await Promise.all([1, 2, 3, 4].map(() => client.fetch('GET', path('/archive.tar'))));
    expect(open.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const refused = await client.get(path('/archive.tar'));
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10']);
    await Promise.all(open.map(({ body }) => body?.cancel()));
    await until(
      'archives are given up',
      async () => (await client.get(path('/archive.tar?path=README.md'))).status === 200,
    );
  });
});

describe('a large push', () => {
  it('takes bounded memory for 20 MB, sent in chunks after a probe', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'private' }, owner);
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), project, owner);
    await writeFile(join(tree, 'big'), randomBytes(20 * 1024 * 1024));
    await runGit(tree, 'add', '.');
    await runGit(tree, 'commit', '-q', '-m', 'Big');
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    let peak = before;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss);
    }, 10);
    await runGit(tree, 'push', '-q', remote, 'main');
    await runGit(folder(), 'clone', '-q', '--bare', remote, 'big-clone');
    clearInterval(watch);
    expect(await runGit(join(folder(), 'big-clone'), 'rev-parse', 'main')).toBe(
      await runGit(tree, 'rev-parse', 'main'),
    );
    // Holding the content in memory would take at least 40 MB.
    expect(peak - before).toBeLessThan(64 * 1024 * 1024);
  });
});
