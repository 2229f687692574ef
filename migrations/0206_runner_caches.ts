import { type Kysely, sql } from 'kysely';

/** How often the caches of a project's runners were cleared. The number is part of the key of each cache. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table projects add column jobs_cache_index integer not null default 0`.execute(db);
};
