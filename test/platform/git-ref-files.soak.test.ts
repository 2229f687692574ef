import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readRefFiles } from '#platform/git/refs/files.ts';

const run = promisify(execFile);
let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-refs-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const repository = async () => {
  const path = await mkdtemp(join(folder, 'r-'));
  const git = async (...args: string[]) =>
    (await run('git', ['-C', path, '-c', 'user.name=A', '-c', 'user.email=a@example.com', ...args])).stdout.trim();
  await git('init', '-q', '--bare', '-b', 'main');
  const tree = await git('hash-object', '-t', 'tree', '-w', '/dev/null');
  const commit = async (message: string) => git('commit-tree', '-m', message, tree);
  const listed = async () => {
    const text = await git('for-each-ref', '--format=%(refname) %(objectname)', 'refs/heads/');
    return text === '' ? [] : text.split('\n');
  };
  const read = async () => (await readRefFiles(path, 'refs/heads/'))?.map(({ name, oid }) => `${name} ${oid}`) ?? null;
  return { path, git, commit, listed, read };
};

describe('reading refs from files', () => {
  it('returns the refs of git: packed, in files, or both', async () => {
    const { git, commit, listed, read } = await repository();
    expect(await read()).toEqual([]);
    const [one, two] = [await commit('1'), await commit('2')];
    const set = (name: string, oid: string) => git('update-ref', `refs/heads/${name}`, oid);
    for (const name of ['b', 'a/b', 'a-b', 'é', 'Z', '😀', '\uff5e']) await set(name, one);
    await git('update-ref', 'refs/keep-around/x', two);
    await git('tag', '-a', '-m', 'x', 'v1', one);
    expect(await read()).toEqual(await listed());
    await git('pack-refs', '--all');
    expect(await read()).toEqual(await listed());
    for (const name of ['b', 'a.b', 'zz', '0']) await set(name, two);
    await git('update-ref', '-d', 'refs/heads/a/b');
    const mixed = await read();
    expect(mixed).toEqual(await listed());
    expect(mixed).toContain(`refs/heads/b ${two}`);
    expect(mixed).toHaveLength(9);
    await git('pack-refs', '--all');
    expect(await read()).toEqual(await listed());
  });

  it('falls back to git if they are stored in another way', async () => {
    const { path, git, commit, read } = await repository();
    const oid = await commit('1');
    await git('update-ref', 'refs/heads/a', oid);
    await writeFile(join(path, 'refs/heads/x.lock'), 'half');
    expect(await read()).toEqual([`refs/heads/a ${oid}`]);
    await git('symbolic-ref', 'refs/heads/link', 'refs/heads/a');
    expect(await read()).toBeNull();
    await git('symbolic-ref', '--delete', 'refs/heads/link');
    await writeFile(join(path, 'packed-refs'), `# pack-refs with:\n${oid} refs/heads/b\n`);
    expect(await read()).toBeNull();
    await rm(join(path, 'packed-refs'));
    await mkdir(join(path, 'refs/heads/many'));
    await Promise.all(Array.from({ length: 501 }, (_, n) => writeFile(join(path, `refs/heads/many/${n}`), `${oid}\n`)));
    expect(await read()).toBeNull();
    await rm(join(path, 'refs/heads'), { recursive: true });
    expect(await read()).toBeNull();
    await writeFile(join(path, 'refs/heads'), 'this repository uses the reftable format\n');
    expect(await read()).toBeNull();
  });

  it('returns every unchanged ref while others move, are packed and are deleted', async () => {
    const { git, commit, read } = await repository();
    const [one, two] = [await commit('1'), await commit('2')];
    const steady = Array.from({ length: 20 }, (_, n) => `refs/heads/steady/${n}`);
    for (const name of steady) await git('update-ref', name, one);
    let busy = true;
    const work = (async () => {
      for (let n = 0; n < 15; n++) {
        await git('update-ref', 'refs/heads/moving', n % 2 === 0 ? one : two);
        await git('pack-refs', '--all');
        await git('update-ref', steady[n] ?? '', one);
        await git('update-ref', 'refs/heads/here/and/gone', two);
        await git('update-ref', '-d', 'refs/heads/here/and/gone');
      }
      busy = false;
    })();
    let seenMoving = false;
    for (let reads = 0; busy; reads++) {
      const seen = new Map((await read())?.map((line) => [line.split(' ')[0], line.split(' ')[1]]));
      for (const name of steady) expect(seen.get(name), `${name} in read ${reads}`).toBe(one);
      const moving = seen.get('refs/heads/moving');
      if (seenMoving) expect(moving).toBeDefined();
      seenMoving ||= moving !== undefined;
      expect([undefined, one, two]).toContain(moving);
      expect([undefined, two]).toContain(seen.get('refs/heads/here/and/gone'));
    }
    await work;
  });
});
