import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { settleDeadPushes } from '#domains/repositories/pushes.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { commitFile, eventsOf, remoteOf, remoteUrl, runGit, tryGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

interface Doomed {
  readonly url: string;
  readonly processId: string;
  readonly ended: Promise<NodeJS.Signals | null>;
}

/** Starts another process of the same hub, which will kill itself. */
const startDoomed = async (moment: 'before' | 'after'): Promise<Doomed> => {
  const { config } = app().hub.services;
  const script = fileURLToPath(new URL('push-process.ts', import.meta.url));
  const child = spawn(process.execPath, [script, config.databaseUrl ?? '', config.dataDir, moment], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<NodeJS.Signals | null>((resolve) => child.once('exit', (_code, signal) => resolve(signal)));
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('{')) return { ...JSON.parse(line), ended };
  }
  throw new Error('the process did not come up');
};

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const tree = await workTree(folder());
  return { owner, project, tree, token: await app().tokenOf(owner), remote: await remoteOf(app(), project, owner) };
};
const openPushes = () =>
  app().hub.services.db.selectFrom('pushes').select('id').where('state', '=', 'receiving').execute();
/** Makes the heartbeat look old, so that nobody has to wait for it. */
const forget = ({ processId }: Doomed) =>
  app()
    .hub.services.db.updateTable('hub_processes')
    .set({ seen_at: '2020-01-01T00:00:00Z' })
    .where('id', '=', processId)
    .execute();

describe('a process killed in the middle of a push', () => {
  it('emits the event exactly once if it died after refs moved', async () => {
    const { owner, project, tree, token, remote } = await setUp();
    const doomed = await startDoomed('after');
    await tryGit(tree, 'push', remoteUrl(doomed.url, project, 'x', token), 'main', 'main:other');
    expect(await doomed.ended).toBe('SIGKILL');
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    expect(await runGit(folder(), 'ls-remote', remote, 'refs/heads/*')).toContain(head);
    expect(await eventsOf(app(), project.id)).toEqual([]);
    // The push is left alone as long as the process may be alive.
    await settleDeadPushes(app().hub.services);
    expect(await eventsOf(app(), project.id)).toEqual([]);

    await forget(doomed);
    await Promise.all([settleDeadPushes(app().hub.services), settleDeadPushes(app().hub.services)]);
    await until('it is settled', async () => (await openPushes()).length === 0);
    const events = await eventsOf(app(), project.id);
    expect(events.map(({ kind, actor_id, payload }) => [kind, actor_id, payload.ref, payload.after])).toEqual([
      ['push.received', owner.id, 'refs/heads/main', head],
      ['push.received', owner.id, 'refs/heads/other', head],
      ['repository.updated', owner.id, undefined, undefined],
    ]);
    expect((await app().as(owner).get(`/projects/${project.id}`)).body).toMatchObject({ empty_repo: false });
    const second = await commitFile(tree, 'b', 'b', 'Second');
    await runGit(tree, 'push', '-q', remote, 'main');
    expect((await eventsOf(app(), project.id))[3]?.payload).toMatchObject({ before: head, after: second });
  });

  it('emits nothing if it died before refs moved, and the next push settles it', async () => {
    const { project, tree, token, remote } = await setUp();
    const doomed = await startDoomed('before');
    const pushed = await tryGit(tree, 'push', remoteUrl(doomed.url, project, 'x', token), 'main');
    expect(pushed.code).not.toBe(0);
    expect(await doomed.ended).toBe('SIGKILL');
    expect(await openPushes()).toHaveLength(1);
    expect(await runGit(folder(), 'ls-remote', remote)).toBe('');
    // The client retries while the process still counts as alive, and waits until it does not.
    const again = tryGit(tree, 'push', remote, 'main');
    await forget(doomed);
    expect((await again).code).toBe(0);
    const events = await eventsOf(app(), project.id);
    expect(events.map(({ kind }) => kind)).toEqual(['push.received', 'repository.updated']);
    expect(await openPushes()).toEqual([]);
  });

  it('emits events only for the refs that moved', async () => {
    const { owner, project, tree, remote } = await setUp();
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'push', '-q', remote, 'main');
    const { db, git } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    await db
      .insertInto('pushes')
      .values({
        project_id: project.id,
        user_id: owner.id,
        process_id: '00000000-0000-4000-8000-000000000000',
        commands: JSON.stringify([
          { ref: 'refs/heads/moved', oldOid: null, newOid: head },
          { ref: 'refs/heads/unmoved', oldOid: null, newOid: head },
          { ref: 'refs/tags/gone', oldOid: head, newOid: null },
        ]),
        refs: ['refs/heads/moved', 'refs/heads/unmoved', 'refs/tags/gone'],
      })
      .execute();
    await git.updateRefs(disk_path, [{ ref: 'refs/heads/moved', oldOid: null, newOid: head }]);
    await settleDeadPushes(app().hub.services);
    await until('it is settled', async () => (await openPushes()).length === 0);
    const events = (await eventsOf(app(), project.id)).slice(2);
    expect(events.map(({ payload }) => payload.ref)).toEqual(['refs/heads/moved', 'refs/tags/gone', undefined]);
  });
});
