import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { runGitWith } from '../support/git.ts';
import { filledProject } from './reading-support.ts';
import { runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();

/** `café.txt` in Latin-1, which is invalid UTF-8. */
const NAME = Buffer.from('caf\xe9.txt', 'latin1');

it('files whose names are not UTF-8 are listed, archived and kept, and can be read by blob id', async () => {
  const { owner, tree, remote, path } = await filledProject(app(), folder(), { 'plain.txt': 'plain' });
  const client = app().as(owner);
  const blob = await runGit(tree, 'hash-object', '-w', 'plain.txt');
  const entry = Buffer.concat([Buffer.from(`100644 ${blob}\t`), NAME, Buffer.from('\0')]);
  await runGitWith({ input: entry }, tree, 'update-index', '-z', '--index-info');
  await runGit(tree, 'commit', '-q', '-m', 'An old name');
  await runGit(tree, 'push', '-q', remote, 'HEAD');

  const listed = (await client.get(path('/tree'))).body.map(({ id, name }: { id: string; name: string }) => [name, id]);
  expect(listed).toContainEqual(['caf\ufffd.txt', blob]);
  expect((await client.get(path(`/blobs/${blob}/raw`))).body).toBe('plain');
  for (const [name, status] of [
    ['caf%E9.txt', 400],
    ['caf%EF%BF%BD.txt', 404],
  ] as const) {
    for (const rest of ['', '/raw', '/blame']) {
      const answer = await client.get(path(`/files/${name}${rest}?ref=main`));
      expect([name, rest, answer.status]).toEqual([name, rest, status]);
    }
  }
  expect((await client.get(path('/files/caf%E9.txt?ref=main'))).body).toEqual({ error: '400 Bad Request' });
  expect((await client.get(path('/tree?path=%E9'))).status).toBe(400);
  const shown = await client.get(path('/commits/main/diff'));
  expect(shown.body).toMatchObject([{ new_path: 'caf\ufffd.txt', new_file: true }]);
  const archive = await client.fetch('GET', path('/archive.tar'));
  expect(Buffer.from(await archive.arrayBuffer()).includes(NAME)).toBe(true);

  // Adding a file beside it leaves it unchanged.
  const file = { branch: 'main', commit_message: 'Beside', content: 'x' };
  expect((await client.post(path('/files/beside.txt'), file)).status).toBe(201);
  await runGit(tree, 'fetch', '-q', remote, 'main');
  const names = execFileSync('git', ['ls-tree', '-z', '--name-only', 'FETCH_HEAD'], { cwd: tree });
  expect(names.includes('beside.txt')).toBe(true);
  expect(names.includes(NAME)).toBe(true);
  const stranger = app().as(await app().make.user());
  expect((await stranger.get(path(`/blobs/${blob}/raw`))).status).toBe(404);
});
