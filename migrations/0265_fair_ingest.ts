import { type Kysely, sql } from 'kysely';

/** For the digest of error reports, which takes the oldest ones of each project. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index ingest_envelopes_project on ingest_envelopes (project_id, id)`.execute(db);
};
