import { type Kysely, sql } from 'kysely';

/**
 * What a merge is about to land. It is stored before the target branch moves, so that a merge is completed or taken back
 * after the process has died.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table merge_requests add column merging jsonb`.execute(db);
};
