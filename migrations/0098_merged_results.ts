import { type Kysely, sql } from 'kysely';

/** Pipelines of merge requests can run on the merged result. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table projects add column merge_pipelines_enabled boolean not null default false;
  `.execute(db);
};
