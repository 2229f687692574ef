import { type Kysely, sql } from 'kysely';

/** Relation imports can be retried. They keep their archive for it, and count their pace from the retry. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table relation_imports
      add column started_at timestamptz,
      -- the lines that earlier tries had finished
      add column lines_before integer not null default 0;
    -- failed imports keep their archive for a retry until it expires
    create index relation_imports_kept on relation_imports (finished_at)
      where status = 'failed' and storage_key is not null;
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
        0::bigint, null::bigint, error, created_at,
        case when status <> 'created' then coalesce(started_at, created_at) end, finished_at, lines_before,
        case when coalesce(total_lines, 0) = 0 then 0 else 100.0 * lines_before / total_lines end::float8
      from relation_imports;
  `.execute(db);
};
