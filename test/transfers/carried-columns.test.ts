import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely';
import { expect, it } from 'vitest';
import { RELATIONS } from '#domains/transfers/relations/all.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

/** Columns that export archives leave out. The place of a row is that of the new project. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  labels: ['namespace_id'],
  milestones: ['namespace_id'],
  issues: ['imported', 'milestone_id', 'project_id'],
  snippets: ['project_id'],
  releases: ['project_id'],
  members: ['namespace_id', 'override', 'project_id', 'source'],
  protected_branches: ['project_id', 'updated_at'],
  approval_rules: ['namespace_id', 'source_rule_id', 'updated_at'],
  // The rest is about work in progress, or follows from the versions.
  merge_requests: [
    'branch_missing',
    'imported',
    'merge_when_pipeline_succeeds',
    'merging',
    'milestone_id',
    'needs_rebase',
    'prepared_at',
    'rebasing',
  ],
  notes: ['imported', 'issue_id', 'merge_request_id', 'snippet_id'],
  // Imported pipelines have ended.
  pipelines: [
    'auto_cancel_on_job_failure',
    'auto_cancel_on_new_commit',
    'auto_canceled_by_id',
    'bridge_job_id',
    'idempotency_key',
    'imported',
    'locked',
    'merge_request_id',
    'project_id',
    'schedule_id',
  ],
  pipeline_schedules: ['project_id'],
  // Tokens stay secret, and belong to the user who imports.
  pipeline_triggers: ['digest', 'last_used_at', 'owner_id', 'project_id', 'sealed_token'],
  protected_tags: ['project_id'],
  custom_attributes: ['namespace_id', 'project_id', 'user_id'],
};

it('export archives carry every column of their relations, except those that are left out on purpose', async () => {
  const compiler = new Kysely<never>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
  const { rows } = await sql<{ name: string; columns: string[] }>`
    select table_name as name, array_agg(column_name::text order by column_name) as columns
    from information_schema.columns where table_schema = 'public' group by 1`.execute(app().hub.services.db);
  const columnsOf = new Map(rows.map(({ name, columns }) => [name, columns]));
  for (const { name, reading } of RELATIONS) {
    const text = reading.page([1]).compile(compiler).sql;
    const table = /from (\w+) t\b/.exec(text)?.[1] ?? name;
    const missing = columnsOf.get(table)?.filter((column) => !new RegExp(`\\b[tn]\\.${column}\\b`).test(text));
    expect([name, missing]).toEqual([name, LEFT_OUT[table]]);
  }
});
