import { type Kysely, sql } from 'kysely';

/** Merge requests that must be merged before others. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table merge_request_blocks (
      id bigint generated always as identity primary key,
      blocked_id bigint not null references merge_requests (id) on delete cascade,
      blocking_id bigint not null references merge_requests (id) on delete cascade,
      created_at timestamptz not null default now(),
      unique (blocked_id, blocking_id),
      check (blocked_id <> blocking_id)
    );
    create index merge_request_blocks_blocking on merge_request_blocks (blocking_id);
  `.execute(db);
};
