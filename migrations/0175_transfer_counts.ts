import { type Kysely, sql } from 'kysely';

/**
 * Counts the failed items of an import as they are recorded, instead of for each progress event. Keeps where a retried
 * import started from, so that its rate counts only what it did itself.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table project_imports
      add column failures integer not null default 0,
      add column items_before integer not null default 0,
      add column percentage_before double precision not null default 0;
    update project_imports i set failures = f.failures
      from (select project_id, count(*) as failures from import_failures group by project_id) f
      where f.project_id = i.project_id;
    create or replace view transfers as
      select 'export:' || id as key, 'export' as kind, id, project_id, user_id, status, null::text as detail,
        percentage, relations, bytes, total_bytes, error, created_at, started_at, finished_at,
        0 as items_before, 0::float8 as percentage_before
      from project_exports
      union all
      select 'import:' || id, 'import', id, project_id, user_id, status, import_type,
        percentage, relations, bytes, total_bytes, import_error, created_at, started_at, finished_at,
        items_before, percentage_before
      from project_imports where import_type <> 'fork'
      union all
      select 'relation_import:' || id, 'relation_import', id, project_id, user_id, status, relation,
        case when status = 'finished' then 100 when coalesce(total_lines, 0) = 0 then 0
          else least(99, 100.0 * done_lines / total_lines) end::float8,
        jsonb_build_object(relation, jsonb_build_object('done', done_lines, 'total', coalesce(total_lines, 0))),
        0::bigint, null::bigint, error, created_at, created_at, finished_at, 0, 0::float8
      from relation_imports;
  `.execute(db);
};
