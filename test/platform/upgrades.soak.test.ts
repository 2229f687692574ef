import { readdir } from 'node:fs/promises';
import { runMigrations } from 'graphile-worker';
import pg from 'pg';
import { expect, test } from 'vitest';
import { createDatabase, createPool, type Database, tolerateLosses } from '#platform/db/pool.ts';
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
  const worker = tolerateLosses(new pg.Pool({ connectionString: database.url, max: 2 }));
  await runMigrations({ pgPool: worker });
  await worker.end();
  const db = createDatabase(pool);
  await apply(db, '0000', number);
  return {
    pool,
    upgrade: () => apply(db, number, '9999'),
    repeat: (from: string, to: string) => apply(db, from, to),
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

test('a hub with projects that left their groups gives them labels and milestones of their own', async () => {
  await using hub = await openBefore('0291');
  const { pool } = hub;
  await pool.query(`
    insert into namespaces (id, kind, name, path, full_path, full_name, visibility_level, traversal_ids) values
      (900, 'group', 'left', 'left', 'left', 'left', 0, '{900}'), (901, 'group', 'top', 'top', 'top', 'top', 0, '{901}'),
      (902, 'group', 'low', 'low', 'top/low', 'top / low', 0, '{901,902}');
    insert into projects (id, namespace_id, name, path, full_path, disk_path, visibility_level) values
      (1, 902, 'p', 'p', 'top/low/p', 'p', 0), (2, 900, 'q', 'q', 'left/q', 'q', 0);
    insert into labels (id, project_id, namespace_id, title, color, description) values
      (11, null, 900, 'secret', '#112233', 'Kept'), (12, null, 900, 'bug', '#112233', null),
      (13, null, 901, 'bug', '#ffffff', null), (14, null, 902, 'bug', '#000000', null), (15, 1, null, 'own', '#445566', null);
    insert into milestones (id, project_id, namespace_id, iid, title, state, due_date) values
      (21, null, 900, 7, 'secret', 'closed', '2030-01-02'), (22, null, 900, 8, 'shared', 'active', null),
      (23, null, 901, 1, 'shared', 'active', null), (24, 1, null, 1, 'own', 'active', null);
    insert into issues (id, project_id, iid, title, milestone_id) values (31, 1, 1, 'One', 21), (32, 2, 1, 'Other', 21);
    insert into merge_requests (id, project_id, source_project_id, iid, title, source_branch, target_branch, milestone_id)
      values (41, 1, 1, 1, 'M', 'a', 'main', 22);
    insert into label_links (label_id, issue_id, merge_request_id) values
      (11, 31, null), (12, 31, null), (14, 31, null), (15, 31, null), (11, null, 41), (11, 32, null);
    insert into releases (id, project_id, tag) values (51, 1, 'v1');
    insert into release_milestones (release_id, milestone_id) values (51, 21), (51, 24)`);
  const uses = async () =>
    (
      await pool.query<{ text: string }>(`
        select concat_ws(' ', l.title, l.color, l.description, coalesce('p' || l.project_id, 'n' || l.namespace_id),
            coalesce('i' || k.issue_id, 'm' || k.merge_request_id)) as text
          from label_links k join labels l on l.id = k.label_id
        union all select concat_ws(' ', m.title, m.state, m.due_date, m.iid, coalesce('p' || m.project_id, 'n' || m.namespace_id), u.used)
          from milestones m join (select milestone_id, 'i' || id as used from issues
            union all select milestone_id, 'm' || id from merge_requests
            union all select milestone_id, 'r' || release_id from release_milestones) u on u.milestone_id = m.id
        order by 1`)
    ).rows.map(({ text }) => text);
  const repaired = [
    'bug #000000 n902 i31',
    'own #445566 p1 i31',
    'own active 1 p1 r51',
    'secret #112233 Kept n900 i32',
    'secret #112233 Kept p1 i31',
    'secret #112233 Kept p1 m41',
    'secret closed 2030-01-02 2 p1 i31',
    'secret closed 2030-01-02 2 p1 r51',
    'secret closed 2030-01-02 7 n900 i32',
    'shared active 1 n901 m41',
  ];
  await hub.upgrade();
  expect(await uses()).toEqual(repaired);
  const { rows: counters } = await pool.query('select project_id, kind, last_iid from project_counters');
  expect(counters).toEqual([{ project_id: 1, kind: 'milestone', last_iid: 2 }]);
  // Nothing is left to repair.
  await hub.repeat('0291', '0292');
  expect(await uses()).toEqual(repaired);
});

test('a hub with forks that were deleted, and narrowed applications, makes its statuses and scopes agree', async () => {
  await using hub = await openBefore('0290');
  const { pool } = hub;
  await pool.query(`
    insert into users (id, username, name, email) values (900, 'u', 'U', 'u@example.com');
    insert into namespaces (id, kind, name, path, full_path, full_name, visibility_level)
      values (900, 'group', 'g', 'g', 'g', 'g', 0);
    insert into projects (id, namespace_id, name, path, full_path, disk_path, visibility_level)
      values (1, 900, 'p', 'p', 'g/p', 'p', 0);
    insert into merge_requests (project_id, source_project_id, iid, title, source_branch, target_branch, state, merge_status)
      select 1, source, iid, 'M', 'a' || iid, 'main', state, 'can_be_merged'
      from (values (null, 1, 'opened'), (null, 2, 'merged'), (1, 3, 'opened')) given (source, iid, state);
    insert into oauth_applications (id, uid, name, secret_digest, redirect_uris, scopes, confidential)
      overriding system value values (1, 'a', 'A', 'x', '{https://a.example/}', '{read_api,openid}', true);
    insert into oauth_access_tokens (application_id, user_id, digest, scopes, family_id, revoked_at) values
      (1, 900, 'a', '{openid,api,read_api}', gen_random_uuid(), null), (1, 900, 'b', '{api}', gen_random_uuid(), null),
      (1, 900, 'c', '{api}', gen_random_uuid(), now()), (null, 900, 'd', '{api}', gen_random_uuid(), null)`);
  await hub.upgrade();
  const { rows: statuses } = await pool.query('select merge_status, branch_missing from merge_requests order by iid');
  expect(statuses).toEqual([
    { merge_status: 'cannot_be_merged', branch_missing: true },
    { merge_status: 'can_be_merged', branch_missing: false },
    { merge_status: 'can_be_merged', branch_missing: false },
  ]);
  const { rows: tokens } = await pool.query('select scopes from oauth_access_tokens order by digest');
  expect(tokens.map(({ scopes }) => scopes)).toEqual([['openid', 'read_api'], [], ['api'], ['api']]);
});

test('paths of CI files with a leading slash lose it', async () => {
  await using hub = await openBefore('0297');
  const { pool } = hub;
  await pool.query(`
    insert into namespaces (id, kind, name, path, full_path, full_name, visibility_level)
      values (1, 'group', 'g', 'g', 'g', 'g', 20);
    insert into projects (namespace_id, name, path, full_path, disk_path, visibility_level, ci_config_path)
      select 1, p, p, 'g/' || p, p, 0, given from (values ('p', '/ci/own.yml'), ('q', 'x/y.yml'), ('r', null)) rows (p, given);
    update application_settings set attributes = '{"default_ci_config_path": "/x.yml", "max_export_size": 7}'`);
  await hub.upgrade();
  expect((await pool.query('select ci_config_path from projects order by path')).rows).toEqual([
    { ci_config_path: 'ci/own.yml' },
    { ci_config_path: 'x/y.yml' },
    { ci_config_path: null },
  ]);
  expect((await pool.query('select attributes from application_settings')).rows).toEqual([
    { attributes: { default_ci_config_path: 'x.yml', max_export_size: 7 } },
  ]);
});

test('groups below one without runners of the instance have none either', async () => {
  await using hub = await openBefore('0298');
  const { pool } = hub;
  await pool.query(`
    insert into namespaces
      (id, kind, parent_id, traversal_ids, name, path, full_path, full_name, visibility_level, shared_runners_setting)
    select id, 'group', parent, ids, id::text, id::text, id::text, id::text, 20, setting from (values
      (1, null::bigint, '{1}'::bigint[], 'disabled_and_unoverridable'),
      (2, 1, '{1,2}', 'enabled'),
      (3, 2, '{1,2,3}', 'disabled_and_overridable'),
      (4, null, '{4}', 'disabled_and_overridable'),
      (5, 4, '{4,5}', 'enabled')) rows (id, parent, ids, setting)`);
  await hub.upgrade();
  const { rows } = await pool.query('select shared_runners_setting as setting from namespaces order by id');
  const none = 'disabled_and_unoverridable';
  expect(rows.map(({ setting }) => setting)).toEqual([none, none, none, 'disabled_and_overridable', 'enabled']);
});
