import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

const columnsOf = async (relation: string): Promise<string[]> => {
  const { rows } = await sql<{ column: string }>`
    select concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      case a.attgenerated when 's' then 'generated' when '' then case when d.adbin is not null then 'default' end end,
      case when a.attidentity <> '' then 'identity' end,
      pg_get_expr(d.adbin, d.adrelid)) as column
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = ${`graphile_worker.${relation}`}::regclass and a.attnum > 0 and not a.attisdropped
    order by a.attname`.execute(app().hub.services.db);
  return rows.map(({ column }) => column);
};

// The statements in platform/job-runner use these private tables (docs/decisions/0033). If a new version of
// graphile-worker changes them, check every statement there before changing this test.
describe('the private tables of graphile-worker', () => {
  it('have the columns that freeing, returning, failing and pruning jobs rely on', async () => {
    expect(await columnsOf('_private_jobs')).toEqual([
      'attempts smallint not null default 0',
      'created_at timestamp with time zone not null default now()',
      'flags jsonb',
      'id bigint not null identity',
      'is_available boolean not null generated ((locked_at IS NULL) AND (attempts < max_attempts))',
      'job_queue_id integer',
      'key text',
      'last_error text',
      'locked_at timestamp with time zone',
      'locked_by text',
      'max_attempts smallint not null default 25',
      "payload json not null default '{}'::json",
      'priority smallint not null default 0',
      'revision integer not null default 0',
      'run_at timestamp with time zone not null default now()',
      'task_id integer not null',
      'updated_at timestamp with time zone not null default now()',
    ]);
    expect(await columnsOf('_private_tasks')).toEqual(['id integer not null identity', 'identifier text not null']);
  });

  it('have nothing that refers to jobs, so that pruning deletes whole jobs', async () => {
    const { rows } = await sql`
      select conrelid::regclass from pg_constraint
      where contype = 'f' and confrelid = 'graphile_worker._private_jobs'::regclass`.execute(app().hub.services.db);
    expect(rows).toEqual([]);
  });

  it('are filled by add_jobs, which takes the columns that the hub sends', async () => {
    expect(await columnsOf('job_spec')).toEqual(
      expect.arrayContaining([
        'identifier text',
        'job_key text',
        'max_attempts smallint',
        'payload json',
        'run_at timestamp with time zone',
      ]),
    );
  });

  it('wake workers through the channel that freed jobs notify', async () => {
    const { rows } = await sql<{ source: string }>`
      select string_agg(prosrc, '') as source from pg_proc
      where pronamespace = 'graphile_worker'::regnamespace and proname = 'add_jobs'`.execute(app().hub.services.db);
    expect(rows[0]?.source).toContain(`pg_notify('jobs:insert'`);
  });
});
