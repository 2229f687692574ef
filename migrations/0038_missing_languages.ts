import { type Kysely, sql } from 'kysely';

/**
 * Adds a job that detects the languages of existing projects. Others are detected on creation and on push. Also adds an
 * index for the account that stands for all deleted accounts, which is looked up on each deletion.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    select graphile_worker.add_job('repositories.detect_missing_languages', '{"after": 0}', max_attempts := 25,
      job_key := 'repositories.detect_missing_languages')
    where exists (select from projects)`.execute(db);
  await sql`create index users_ghost on users (id) where user_type = 'ghost'`.execute(db);
};
