import { type Kysely, sql } from 'kysely';

/** Downloads of remote archives are stored in parts, so that one whose worker died is resumed by another. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table project_imports
      -- storage keys of the parts so far, in order
      add column download_parts text[] not null default '{}',
      add column download_part_bytes bigint not null default 0,
      -- what identifies the file at its server, which must not change before the rest is requested
      add column download_validators jsonb;
    drop index project_imports_kept;
    -- failed imports keep their archive, or where to download it, for a retry until it expires
    create index project_imports_kept on project_imports (finished_at)
      where status = 'failed' and (storage_key is not null or source_url is not null or download_parts <> '{}');
  `.execute(db);
};
