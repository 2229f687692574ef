import { readdir } from 'node:fs/promises';
import { runMigrations } from 'graphile-worker';
import pg from 'pg';
import { expect, test } from 'vitest';
import { createDatabase, createPool, type Database } from '#platform/db/pool.ts';
import { createEmptyDatabase } from '../support/database.ts';

const MIGRATIONS = new URL('../../migrations/', import.meta.url);

/** Applies the migrations whose number is at least `from` and below `to`. */
const apply = async (db: Database, from: string, to: string): Promise<void> => {
  const names = (await readdir(MIGRATIONS)).filter((name) => name >= from && name < to).sort();
  for (const name of names) {
    const { up } = await import(new URL(name, MIGRATIONS).href);
    await db.transaction().execute(up);
  }
};

/** Creates a database as a hub had it before the migration with this number. */
const openBefore = async (number: string) => {
  const database = await createEmptyDatabase();
  const pool = createPool({ connectionString: database.url, max: 2, applicationName: 'upgrade' });
  const worker = new pg.Pool({ connectionString: database.url, max: 2 });
  worker.on('error', () => {});
  worker.on('connect', (client) => client.on('error', () => {}));
  await runMigrations({ pgPool: worker });
  await worker.end();
  const db = createDatabase(pool);
  await apply(db, '0000', number);
  return {
    pool,
    upgrade: () => apply(db, number, '9999'),
    async [Symbol.asyncDispose]() {
      await pool.end();
      await database.drop();
    },
  };
};

test('a hub with events and running jobs keeps them when their tables become partitioned', async () => {
  await using hub = await openBefore('0156');
  const { pool } = hub;
  const emit = (n: number) =>
    pool.query(
      `insert into events (kind, subject_type, subject_id, payload) values ('thing.noted', 'Thing', $1, '{}')`,
      [n],
    );
  const events = async () =>
    (await pool.query<{ position: number; subject_id: number }>('select position, subject_id from events order by 1'))
      .rows;
  for (const n of [1, 2]) await emit(n);
  await pool.query('select sequence_events()');
  // This one has no position yet.
  await emit(3);
  await pool.query(`
    insert into users (username, name, email) values ('u', 'U', 'u@example.com');
    insert into namespaces (kind, owner_id, name, path, full_path, full_name, visibility_level)
      select 'user', id, 'u', 'u', 'u', 'u', 20 from users;
    insert into projects (namespace_id, name, path, full_path, disk_path, visibility_level)
      select id, 'p', 'p', 'u/p', 'p', 0 from namespaces;
    insert into pipelines (project_id, iid) select id, 1 from projects;
    insert into jobs (project_id, pipeline_id, name) select project_id, id, 'j' from pipelines;
    insert into job_traces (job_id, size) select id, 2 from jobs;
    insert into job_trace_chunks (job_id, start, bytes) select id, 0, 'ab' from jobs`);
  await hub.upgrade();
  await emit(4);
  await pool.query('select sequence_events()');
  expect(await events()).toEqual([1, 2, 3, 4].map((n) => ({ position: n, subject_id: n })));
  expect((await pool.query('select id from events order by position')).rows.map(({ id }) => id)).toEqual([1, 2, 3, 4]);
  expect((await pool.query('select start, bytes from job_trace_chunks')).rows).toEqual([
    { start: 0, bytes: Buffer.from('ab') },
  ]);
});

test('a hub with webhook deliveries keeps them when they get a queue and partitions', async () => {
  await using hub = await openBefore('0152');
  const { pool } = hub;
  await pool.query(`
    insert into namespaces (id, kind, name, path, full_path, full_name, visibility_level)
      values (900, 'group', 'g', 'g', 'g', 'g', 0);
    insert into webhooks (id, namespace_id, url) values (1, 900, 'http://127.0.0.1:9/'), (2, 900, 'http://127.0.0.1:9/');
    insert into webhook_payloads (event_id, kind, trigger, chain_id, body, created_at)
      select n, 'push.received', 'push_events', 'c' || n, 'body ' || n, now() - n * interval '10 hours'
      from generate_series(0, 13) n;
    insert into webhook_deliveries (webhook_id, payload_id, state, attempts, created_at, claimed_by)
      select h.id, p.id, given.state, 2, p.created_at, case when given.state = 'sending' then gen_random_uuid() end
      from webhook_payloads p, webhooks h, (select array['waiting', 'sending', 'held', 'delivered', 'expired', 'canceled',
        'dropped'] as states) known, lateral (select states[1 + p.id % 7] as state) given;
    insert into webhook_attempts (delivery_id, webhook_id, attempt, trigger, request_url, request_headers, duration_ms)
      select id, webhook_id, 1, 'push_events', 'http://127.0.0.1:9/', '{"A": "b"}', 3 from webhook_deliveries`);
  await hub.upgrade();
  const { rows: states } = await pool.query(`
    select coalesce(q.state, d.state) as state, count(*), count(p.body) as bodies, sum(d.attempts) as attempts
    from webhook_deliveries d join webhook_payloads p on p.id = d.payload_id and p.created_at = d.created_at
    left join webhook_queue q on q.delivery_id = d.id and q.attempts = 2 and q.claimed_by is null
    group by 1 order by 1`);
  const four = { count: 4, bodies: 4, attempts: 8 };
  expect(states).toEqual([
    { state: 'canceled', ...four },
    { state: 'delivered', ...four },
    { state: 'dropped', ...four },
    { state: 'expired', ...four },
    { state: 'held', ...four },
    { state: 'waiting', count: 8, bodies: 8, attempts: 16 },
  ]);
  const { rows: attempts } = await pool.query(`
    select count(*) from webhook_attempts a
    join webhook_deliveries d on d.id = a.delivery_id and d.created_at = a.delivery_created_at
      and d.payload_id = a.payload_id`);
  expect(attempts).toEqual([{ count: 28 }]);
  const { rows: next } = await pool.query(
    `select nextval('webhook_payloads_id_seq') as payload, nextval('webhook_attempts_id_seq') as attempt`,
  );
  expect(next).toEqual([{ payload: 15, attempt: 29 }]);
});
