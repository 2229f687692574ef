import { type Kysely, sql } from 'kysely';

/** Imports of archives by URL or from S3: how much of the file has been downloaded. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table project_imports
      add column download_bytes bigint not null default 0,
      -- null if the archive was uploaded, or its size is not known yet
      add column download_size bigint;
  `.execute(db);
};
