import { type Kysely, sql } from 'kysely';

/** How many items of envelopes were accepted and dropped, because nothing uses them. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table ingest_counts add column dropped integer not null default 0`.execute(db);
};
