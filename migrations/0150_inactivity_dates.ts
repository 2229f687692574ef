import { type Kysely, sql } from 'kysely';

/** The day that a warning named counts, even if the settings change. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table inactivity_warnings add delete_at timestamptz`.execute(db);
  await sql`update inactivity_warnings set delete_at = warned_at + interval '1 month'`.execute(db);
  await sql`alter table inactivity_warnings alter delete_at set not null`.execute(db);
};
