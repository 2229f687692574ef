import { type Kysely, sql } from 'kysely';

/** Projects whose Owners were told that they will be deleted for inactivity. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table inactivity_warnings (
      project_id bigint primary key references projects (id) on delete cascade,
      -- The activity of the project when the warning was sent. Later activity makes the warning void.
      last_activity_at timestamptz not null,
      warned_at timestamptz not null default now()
    );
    create index inactivity_warnings_by_time on inactivity_warnings (warned_at, project_id)`.execute(db);
};
