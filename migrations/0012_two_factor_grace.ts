import { type Kysely, sql } from 'kysely';

/** Since when somebody who has to have a second factor goes without one: the grace that settings give begins then. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table users add column two_factor_grace_started_at timestamptz`.execute(db);
};
