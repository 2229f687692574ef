import { type Kysely, sql } from 'kysely';

/**
 * The sessions that were counted as errored, crashed or abnormal. SDKs of browsers send the state of a session again
 * when the page has loaded or the user changes, so their updates alone do not say what was counted before.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table error_session_outcomes (
      release_id bigint not null references error_releases (id) on delete cascade,
      sid uuid not null,
      outcome text not null check (outcome in ('errored', 'crashed', 'abnormal')),
      hour timestamptz not null,
      primary key (release_id, sid, outcome)
    )`.execute(db);
  await sql`create index error_session_outcomes_hour on error_session_outcomes (hour)`.execute(db);
};
