import { type Kysely, sql } from 'kysely';

/** Marks suggestions over several lines if a line other than that of the comment has changed. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table suggestions add column outdated boolean not null default false`.execute(db);
};
