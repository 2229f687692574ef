import { type Kysely, sql } from 'kysely';

/** Until when a session has the rights of an administrator, while admin mode is on. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table sessions add column admin_until timestamptz`.execute(db);
};
