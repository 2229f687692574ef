import { type Kysely, sql } from 'kysely';

/** One process at a time packs a repository, and drops old objects after a number of packings. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table repository_upkeep
      -- The process that packs the repository now.
      add column packing_process_id uuid,
      add column packings_since_gc integer not null default 0`.execute(db);
};
