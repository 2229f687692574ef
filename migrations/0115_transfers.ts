import { type Kysely, sql } from 'kysely';

/** One list of all transfers, and indexes for those of a user. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create view transfers as
      select 'export:' || id as key, 'export' as kind, id, project_id, user_id, status, null::text as detail,
        percentage, relations, bytes, total_bytes, error, created_at, started_at, finished_at
      from project_exports
      union all
      select 'import:' || id, 'import', id, project_id, user_id, status, import_type,
        percentage, relations, bytes, total_bytes, import_error, created_at, started_at, finished_at
      from project_imports where import_type <> 'fork'
      union all
      select 'relation_import:' || id, 'relation_import', id, project_id, user_id, status, relation,
        case when status = 'finished' then 100 when coalesce(total_lines, 0) = 0 then 0
          else least(99, 100.0 * done_lines / total_lines) end::float8,
        jsonb_build_object(relation, jsonb_build_object('done', done_lines, 'total', coalesce(total_lines, 0))),
        0::bigint, null::bigint, error, created_at, created_at, finished_at
      from relation_imports;
    -- failed imports keep their archive for a retry until it expires
    create index project_imports_kept on project_imports (finished_at) where storage_key is not null and status = 'failed';
  `.execute(db);
};
