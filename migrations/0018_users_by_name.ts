import { type Kysely, sql } from 'kysely';

/** Indexes for lists of users in each offered order and for keyset pages, so that Postgres need not sort. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index users_by_name on users (name, id);
    create index users_by_username on users (username, id);
    create index users_by_created_at on users (created_at, id);
    create index users_by_updated_at on users (updated_at, id);
  `.execute(db);
};
