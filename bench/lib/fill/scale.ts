import type pg from 'pg';
import { followers } from '../../../src/app/events.ts';
import { withoutIndexes } from './bulk.ts';
import type { Report } from './data.ts';
import { PEOPLE, WATCHED } from './watched.ts';

const SLICE = 500_000;
const BULKY = [
  'issues',
  'issue_assignees',
  'merge_requests',
  'label_links',
  'notes',
  'pipelines',
  'stages',
  'jobs',
  'job_artifacts',
  'job_traces',
] as const;

/**
 * Adds what projects contain to a filled database: for each project 5 issues, 2 merge requests, 10 notes, 20 events with
 * a delivery each, and 10 jobs with an archive and a log each. One row in 49 belongs to the watched project, and one in
 * 1,001 to the user `few`, so single projects and people have many too. Repositories and stored files are missing. Does
 * nothing if it was done before.
 */
export const fillScale = async (pool: pg.Pool, projects: number, report: Report): Promise<void> => {
  const { rows } = await pool.query<{ done: boolean }>('select exists (select from issues) as done');
  if (rows[0]?.done) return;
  const client = await pool.connect();
  const step = async (name: string, run: () => Promise<unknown>) => {
    const start = performance.now();
    await run();
    report(`${name.padEnd(34)} ${((performance.now() - start) / 1_000).toFixed(1)} s`);
  };
  try {
    await client.query('begin');
    await client.query(`set local maintenance_work_mem = '512MB'; set local work_mem = '128MB'; ${FUNCTIONS}`);
    await client.query(FRAME);
    const restore = await withoutIndexes(client, BULKY);
    for (const { name, perProject, insert } of CONTENTS) {
      const total = projects * perProject;
      for (let from = 1; from <= total; from += SLICE) {
        const to = Math.min(from + SLICE - 1, total);
        await step(`${name} to ${to}`, () => client.query(insert(from, to)));
      }
    }
    for (const table of BULKY) await step(`indexes of ${table}`, () => restore(table));
    await client.query(ENDING);
    await client.query('commit');
    await step('vacuum and analyze', () => client.query('vacuum analyze'));
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  } finally {
    client.release(true);
  }
};

/** Row numbers become ids. `project(i, every)` is the project of row i, and `nth(i)` a number that is unique in it. */
const FUNCTIONS = `
  do $do$
  declare
    known record;
  begin
    select (select min(id) from projects) as first_project, (select count(*) from projects) as projects,
      (select min(id) from users where username like 'person-%') as first_user,
      (select count(*) from users where username like 'person-%') as users,
      (select id from projects where full_path = '${WATCHED.branches}') as watched,
      (select id from users where username = '${PEOPLE.few.username}') as few
      into known;
    -- With literals, Postgres writes the functions out in each statement, instead of calling them for each row.
    execute format($$
      create function pg_temp.projects() returns bigint immutable language sql as 'select %2$s::bigint';
      create function pg_temp.watched() returns bigint immutable language sql as 'select %5$s::bigint';
      create function pg_temp.project(i bigint) returns bigint immutable language sql as
        'select case when i %% 49 = 0 then %5$s else %1$s + i %% %2$s end';
      create function pg_temp.nth(i bigint) returns bigint immutable language sql as
        'select case when i %% 49 = 0 then 1000 + i / 49 else i / %2$s + 1 end';
      create function pg_temp.person(i bigint, salt int) returns bigint immutable language sql as
        'select case when i %% 1001 = 0 then %6$s else %3$s + abs(hashint8extended(i, salt) / 2) %% %4$s end'$$,
      known.first_project, known.projects, known.first_user, known.users, known.watched, known.few);
  end $do$;
  create function pg_temp.moment(i bigint, total bigint) returns timestamptz immutable language sql as $$
    select timestamptz '2024-01-01Z' + i::float8 / total * interval '600 days' $$;
`;

/** Labels and milestones of the projects, and the hook of the watched group. */
const FRAME = `
  insert into labels (project_id, title, color)
    select id, title, '#00ff00' from projects, unnest(array['bug', 'rare', 'area ' || id % 1000]) title
    where title <> 'rare' or id in (select pg_temp.watched());
  insert into milestones (project_id, iid, title) select id, 1, '1.0' from projects;
  insert into webhooks (project_id, url, triggers) select pg_temp.watched(), 'http://127.0.0.1:9/', '{push_events}';
  select make_time_partition(name::regclass, 'day', now() - n * interval '1 day')
    from generate_series(0, 3) n, unnest(array['webhook_payloads', 'webhook_deliveries']) name;
  analyze labels, milestones`;

interface Content {
  readonly name: string;
  /** Rows for each project. */
  readonly perProject: number;
  /** Returns the statement that inserts the rows from one number to another. */
  insert(from: number, to: number): string;
}

const rowsOf = (from: number, to: number) => `generate_series(${from}::bigint, ${to}::bigint) i`;

const CONTENTS: readonly Content[] = [
  {
    name: 'issues',
    perProject: 5,
    insert: (from, to) => `
      insert into issues (id, project_id, iid, title, description, state, author_id, confidential, milestone_id, created_at,
          updated_at, closed_at)
        select i, pg_temp.project(i), pg_temp.nth(i), 'Problem ' || md5(i::text) || case when i % 200003 = 7 then ' quokka' else '' end,
          'What problem number ' || i || ' is about, and how somebody can see it.', case when i % 5 = 0 then 'opened' else 'closed' end,
          pg_temp.person(i, 1), i % 40 = 3, case when i % 10 = 4 then m.id end, at, at + i * 7919 % 1009 * interval '1 hour',
          case when i % 5 = 0 then null else at + interval '9 days' end
        from (select i, pg_temp.moment(i, (5 * pg_temp.projects())) as at from ${rowsOf(from, to)}) given
          join milestones m on m.project_id = pg_temp.project(i);
      insert into issue_assignees (issue_id, user_id) select i, pg_temp.person(i, 2) from ${rowsOf(from, to)};
      insert into label_links (label_id, issue_id)
        select l.id, i from ${rowsOf(from, to)} join labels l on l.project_id = pg_temp.project(i)
        where case l.title when 'bug' then i % 3 = 0 else i % 20011 = 0 end`,
  },
  {
    name: 'merge requests',
    perProject: 2,
    insert: (from, to) => `
      insert into merge_requests (id, project_id, source_project_id, iid, title, description, state, source_branch,
          target_branch, author_id, merge_status, created_at, updated_at, merged_at, closed_at)
        select i, project, project, pg_temp.nth(i), 'Change ' || md5(i::text), 'What change number ' || i || ' is about.', state,
          'topic-' || i, 'main', pg_temp.person(i, 3), 'can_be_merged', at, at + i * 7919 % 1009 * interval '1 hour',
          case when state = 'merged' then at + interval '1 day' end, case when state = 'closed' then at + interval '1 day' end
        from (select i, pg_temp.project(i) as project, pg_temp.moment(i, (2 * pg_temp.projects())) as at,
            case when i % 20 = 0 then 'opened' when i % 10 = 1 then 'closed' else 'merged' end as state
          from ${rowsOf(from, to)}) given;
      insert into label_links (label_id, merge_request_id)
        select l.id, i from ${rowsOf(from, to)} join labels l on l.project_id = pg_temp.project(i) and l.title = 'bug' where i % 3 = 0`,
  },
  {
    name: 'notes',
    perProject: 10,
    insert: (from, to) => `
      insert into notes (id, project_id, noteable_type, issue_id, merge_request_id, note, author_id, system, discussion_id,
          created_at, updated_at)
        select i, pg_temp.project(coalesce(issue, merge_request)), case when issue is null then 'MergeRequest' else 'Issue' end,
          issue, merge_request, 'What somebody thinks about it, number ' || i, pg_temp.person(i, 4), i % 4 = 0, md5(i::text), at, at
        from (select i, case when i % 10 < 7 then 1 + (case when i % 199 = 0 then 48 else i end) % (5 * pg_temp.projects()) end as issue,
            case when i % 10 >= 7 then 1 + (case when i % 199 = 0 then 48 else i end) % (2 * pg_temp.projects()) end as merge_request,
            pg_temp.moment(i, (10 * pg_temp.projects())) as at
          from ${rowsOf(from, to)}) given`,
  },
  {
    name: 'pipelines',
    perProject: 2,
    insert: (from, to) => `
      insert into pipelines (id, project_id, iid, sha, ref, status, source, user_id, created_at, updated_at, finished_at, duration)
        select i, pg_temp.project(i), pg_temp.nth(i), sha1, 'main', case when i % 10 = 0 then 'failed' else 'success' end, 'push',
          pg_temp.person(i, 5), at, at, at, 60
        from (select i, md5(i::text) || '01234567' as sha1, pg_temp.moment(i, (2 * pg_temp.projects())) as at
          from ${rowsOf(from, to)}) given;
      insert into stages (id, pipeline_id, name, status, position) select i, i, 'test', 'success', 0 from ${rowsOf(from, to)}`,
  },
  {
    name: 'jobs',
    perProject: 10,
    insert: (from, to) => `
      insert into jobs (id, project_id, pipeline_id, stage_id, stage_idx, name, status, ref, user_id, created_at, updated_at,
          queued_at, started_at, finished_at, scheduling_type)
        select i, pg_temp.project(pipeline), pipeline, pipeline, 0, 'test ' || i % 5, case when i % 50 = 0 then 'failed' else 'success' end,
          'main', pg_temp.person(pipeline, 5), at, at, at, at, at, 'stage'
        from (select i, (i - 1) / 5 + 1 as pipeline, pg_temp.moment(i, (10 * pg_temp.projects())) as at
          from ${rowsOf(from, to)}) given;
      insert into job_artifacts (id, project_id, job_id, file_type, file_format, filename, size, sha256, storage_key, created_at,
          expire_at)
        select i, pg_temp.project((i - 1) / 5 + 1), i, 'archive', 'zip', 'artifacts.zip', 1000 + i % 1000, md5(i::text),
          'artifacts/fill/' || i, at, case when i % 3 = 0 then now() + interval '30 days' end
        from (select i, pg_temp.moment(i, (10 * pg_temp.projects())) as at from ${rowsOf(from, to)}) given;
      insert into job_traces (job_id, size, storage_key) select i, 1000, 'traces/fill/' || i from ${rowsOf(from, to)}`,
  },
  {
    name: 'events and deliveries',
    perProject: 20,
    insert: (from, to) => `
      insert into events (position, kind, actor_id, subject_type, subject_id, project_id, namespace_ids, visibility_level, user_ids,
          payload, created_at)
        select i, 'push.received', pg_temp.person(i, 6), 'Project', p.id, p.id, array[p.namespace_id], p.visibility_level, '{}',
          jsonb_build_object('ref', 'refs/heads/main', 'before', md5(i::text), 'after', md5((i + 1)::text)),
          now() - interval '20 days' + i::float8 / (20 * pg_temp.projects()) * interval '20 days'
        from ${rowsOf(from, to)} join projects p on p.id = pg_temp.project(i);
      insert into webhook_payloads (id, event_id, kind, trigger, chain_id, body, created_at)
        select i, i, 'push.received', 'push_events', 'fill-' || i, '{"object_kind": "push"}',
          now() - interval '2 days' + i::float8 / (20 * pg_temp.projects()) * interval '2 days'
        from ${rowsOf(from, to)};
      insert into webhook_deliveries (webhook_id, payload_id, state, attempts, last_response_status, created_at, finished_at)
        select w.id, i, 'delivered', 1, 200, at, at
        from (select i, now() - interval '2 days' + i::float8 / (20 * pg_temp.projects()) * interval '2 days' as at
          from ${rowsOf(from, to)}) given, (select max(id) as id from webhooks) w`,
  },
];

/** Identities go on after the rows, and followers have handled all events. */
const ENDING = `
  ${[...BULKY, 'webhook_payloads']
    .filter((table) => table !== 'issue_assignees' && table !== 'job_traces' && table !== 'label_links')
    .map((table) => `select setval(pg_get_serial_sequence('${table}', 'id'), (select max(id) from ${table}));`)
    .join('\n')}
  update event_log set last_position = (select max(position) from events);
  insert into event_cursors (name, position)
    select unnest(array['${followers.map(({ name }) => name).join(`','`)}']), last_position from event_log
    on conflict (name) do update set position = excluded.position;
  update projects p set open_issues_count = made.n
    from (select project_id, count(*) as n from issues where state = 'opened' group by 1) made where made.project_id = p.id`;
