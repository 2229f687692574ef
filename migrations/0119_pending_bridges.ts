import { type Kysely, sql } from 'kysely';

/** The sweep of stuck jobs looks for bridges that wait to be started. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index jobs_pending_bridges on jobs (queued_at) where status = 'pending' and kind = 'bridge'`.execute(
    db,
  );
};
