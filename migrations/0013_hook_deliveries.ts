import { type Kysely, sql } from 'kysely';

/** What lists, statistics and replays of deliveries need. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- From when on the three days of retries count: anew where a delivery is replayed.
    alter table webhook_deliveries add column retries_from timestamptz not null default now();
    create index webhook_attempts_failed on webhook_attempts (webhook_id, id desc) where error is not null;
    -- Nothing reads by these: attempts go with their payloads, and what is asked for by hand is counted in rate_counts.
    drop index webhook_attempts_created;
    drop index webhook_attempts_requested;
  `.execute(db);
};
