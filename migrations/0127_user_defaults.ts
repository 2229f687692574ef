import { type Kysely, sql } from 'kysely';

/** New users get the values of the instance settings. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table users
      add column preferred_language text not null default 'en',
      -- 0 is Sunday, 1 Monday, 6 Saturday.
      add column first_day_of_week smallint not null default 0`.execute(db);
};
