import { type Kysely, sql } from 'kysely';

/**
 * Has the languages read of the projects that are there already: others get them as they are made and pushed to. And an
 * index of the account that stands for all that are gone, which is looked for whenever one more goes.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    select graphile_worker.add_job('repositories.detect_missing_languages', '{"after": 0}', max_attempts := 25,
      job_key := 'repositories.detect_missing_languages')
    where exists (select from projects)`.execute(db);
  await sql`create index users_ghost on users (id) where user_type = 'ghost'`.execute(db);
};
