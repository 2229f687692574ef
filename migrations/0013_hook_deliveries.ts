import { type Kysely, sql } from 'kysely';

/** Columns and indexes for lists, statistics and replays of deliveries. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- The start of the three days of retries. A replay resets it.
    alter table webhook_deliveries add column retries_from timestamptz not null default now();
    create index webhook_attempts_failed on webhook_attempts (webhook_id, id desc) where error is not null;
    -- Unused indexes: attempts are deleted with their payloads, and manual requests are counted in rate_counts.
    drop index webhook_attempts_created;
    drop index webhook_attempts_requested;
  `.execute(db);
};
