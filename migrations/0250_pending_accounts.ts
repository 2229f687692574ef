import { type Kysely, sql } from 'kysely';

/** For the list of accounts that wait for approval: few among many. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index users_pending_approval on users (id) where state = 'blocked_pending_approval'`.execute(db);
};
