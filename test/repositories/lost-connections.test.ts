import { sql } from 'kysely';
import { afterEach, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { eventsOf } from './support.ts';

const app = useApp();
const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0)) await each();
});

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ initialize_with_readme: true }, owner);
  await app().settle();
  const commit = (path: string) =>
    app()
      .as(owner)
      .post(`/projects/${project.id}/repository/commits`, {
        branch: 'main',
        commit_message: path,
        actions: [{ action: 'create', file_path: path, content: path }],
      });
  const titles = async (): Promise<string[]> =>
    (await app().as(owner).get(`/projects/${project.id}/repository/commits`)).body.map(
      ({ title }: { title: string }) => title,
    );
  return { project, commit, titles };
};

const openPushes = () =>
  app().hub.services.db.selectFrom('pushes').select('id').where('state', '=', 'receiving').execute();

/** Until it is called off, the database shuts down whenever a push is recorded. */
const shutDownWhenRecording = async (): Promise<() => Promise<void>> => {
  const { db } = app().hub.services;
  await sql`
    create function shut_down() returns trigger language plpgsql
    as $$ begin raise 'shutting down' using errcode = '57P01'; end $$`.execute(db);
  await sql`
    create trigger shut_down before update or delete on pushes for each row execute function shut_down()`.execute(db);
  const callOff = async () => {
    await sql`drop function if exists shut_down cascade`.execute(db);
  };
  undo.push(callOff);
  return callOff;
};

it('records a commit of the API when the database is back, and then releases its branch', async () => {
  const { project, commit, titles } = await setUp();
  const before = (await eventsOf(app(), project.id)).length;
  const callOff = await shutDownWhenRecording();
  expect((await commit('first')).status).toBe(503);
  expect(await openPushes()).toHaveLength(1);
  await callOff();
  await until('the push to be recorded', async () => (await openPushes()).length === 0);
  expect((await eventsOf(app(), project.id)).slice(before).map(({ kind }) => kind)).toContain('push.received');
  expect((await commit('second')).status).toBe(201);
  expect((await titles()).slice(0, 2)).toEqual(['second', 'first']);
});

/** Lets the next transaction that begins a push commit, and loses the answer. */
const loseNextCommit = (): (() => boolean) => {
  const { pool } = app().hub.services;
  let isLost = false;
  const onAcquire = (client: object) => {
    const query: unknown = Reflect.get(client, 'query');
    if (typeof query !== 'function') throw new Error('the client has no queries');
    let isPush = false;
    Object.defineProperty(client, 'query', {
      configurable: true,
      value: async (...args: unknown[]): Promise<unknown> => {
        isPush ||= typeof args[0] === 'string' && args[0].includes('insert into pushes');
        const answer: unknown = await Reflect.apply(query, client, args);
        if (!isPush || args[0] !== 'commit' || isLost) return answer;
        isLost = true;
        throw new Error('Connection terminated unexpectedly');
      },
    });
    const onRelease = (_error: unknown, released: object) => {
      if (released !== client) return;
      pool.off('release', onRelease);
      Object.defineProperty(client, 'query', { configurable: true, value: query });
    };
    pool.on('release', onRelease);
  };
  pool.on('acquire', onAcquire);
  undo.push(() => void pool.off('acquire', onAcquire));
  return () => isLost;
};

it('releases a branch that was reserved although the connection was lost', async () => {
  const { commit, titles } = await setUp();
  const isLost = loseNextCommit();
  expect((await commit('first')).status).toBe(503);
  expect(isLost()).toBe(true);
  expect((await commit('second')).status).toBe(201);
  expect((await titles())[0]).toBe('second');
  expect(await openPushes()).toEqual([]);
});
