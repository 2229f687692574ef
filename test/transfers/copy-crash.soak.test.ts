import { randomBytes } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commitFile, remoteOf, runGit, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { startTestApp, type TestApp, type TestUser } from '../support/app.ts';
import { until } from '../support/until.ts';
import { useServers } from './git-server.ts';
import { useWorkers } from './workers.ts';

let app: TestApp;
beforeAll(async () => {
  // This app only serves requests. The workers are separate processes that the tests kill.
  app = await startTestApp({ env: { MILLRACE_ROLE: 'web' } });
});
afterAll(() => app.close());

const folder = useFolder();
const workers = useWorkers(() => app);
const { serveGit } = useServers();

const stateOf = async (id: number) =>
  app.hub.services.db.selectFrom('project_imports').selectAll().where('project_id', '=', id).executeTakeFirstOrThrow();
const directoryOf = async (id: number) => {
  const { services } = app.hub;
  const row = await services.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return join(services.config.dataDir, 'repositories', row.disk_path);
};
const asideOf = async (id: number) =>
  (await readdir(dirname(await directoryOf(id)))).filter((name) => name.includes('.incoming-'));
const refsOf = async (project: { path_with_namespace: string }, user: TestUser) =>
  (await tryGit(folder(), 'ls-remote', await remoteOf(app, project, user))).stdout;

describe('kill -9', () => {
  it('never exposes a partial repository during a clone, and the clone starts again', async () => {
    await app.as(app.root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    const user = await app.make.user();
    const tree = await workTree(folder());
    await commitFile(tree, 'big.txt', randomBytes(2_000_000).toString('hex'), 'Much');
    let tries = 0;
    const half = async (pack: Readable, response: ServerResponse) => {
      let bytes = 0;
      for await (const chunk of pack) {
        bytes += chunk.length;
        if (bytes > 600_000) return; // and never sends the rest
        response.write(chunk);
      }
    };
    const url = await serveGit(join(tree, '.git'), {
      send: (pack, response) => {
        tries += 1;
        if (tries > 1) pack.pipe(response);
        else void half(pack, response);
      },
    });
    const made = await app.as(user).post('/projects', { name: 'survivor', import_url: `${url}/x.git` });
    expect(made.status).toBe(201);
    const { id } = made.body;
    const first = await workers.start();
    await until('a part has come', async () => (await stateOf(id)).bytes > 0);
    expect(await asideOf(id)).toHaveLength(1);
    expect(await refsOf(made.body, user)).toBe('');
    await workers.kill(first);
    expect((await stateOf(id)).status).toBe('started');
    expect(await refsOf(made.body, user)).toBe('');

    const second = await workers.start();
    await until('it is finished', async () => (await stateOf(id)).status === 'finished');
    expect([(await stateOf(id)).attempt, tries]).toEqual([2, 2]);
    expect(await refsOf(made.body, user)).toContain('refs/heads/main');
    await runGit(await directoryOf(id), 'fsck', '--full', '--strict');
    expect(await asideOf(id)).toEqual([]);
    await workers.kill(second);
  });

  it('leaves nothing behind during a fork once the fork is done', async () => {
    const owner = await app.make.user();
    const source = await app.make.project({ visibility: 'public', initialize_with_readme: true }, owner);
    const { body: fork } = await app.as(await app.make.user()).post(`/projects/${source.id}/fork`);
    const { id } = await stateOf(fork.id);
    // Simulate the files of a worker that died when half of the objects were linked.
    const directory = await directoryOf(fork.id);
    const aside = `${directory.slice(0, -4)}.incoming-${'0'.repeat(8)}.git`;
    await mkdir(join(aside, 'objects', 'pack'), { recursive: true });
    await writeFile(join(aside, 'objects', 'pack', 'tmp_pack_x'), 'half');
    await app.hub.services.db
      .updateTable('project_imports')
      .set({ status: 'started', attempt: 1 })
      .where('id', '=', id)
      .execute();
    // A fork that is deleted while it waits leaves nothing at all.
    const { body: gone } = await app.as(owner).post(`/projects/${source.id}/fork`, { path: 'gone', name: 'gone' });
    const place = await directoryOf(gone.id);
    expect((await app.as(owner).delete(`/projects/${gone.id}`)).status).toBe(202);

    await workers.start();
    await until('it is finished', async () => (await stateOf(fork.id)).status === 'finished');
    expect((await stateOf(fork.id)).attempt).toBe(2);
    expect(await asideOf(fork.id)).toEqual([]);
    await runGit(directory, 'fsck', '--full', '--strict');
    await until(
      'the repository is gone',
      async () => (await readdir(dirname(place)).catch(() => [])).length === 0,
      40_000,
    );
  });
});
