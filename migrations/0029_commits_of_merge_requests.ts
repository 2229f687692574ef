import { type Kysely, sql } from 'kysely';

/** The merge requests that bring a commit are found by it, whatever all others of the hub bring. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index merge_request_diff_commits_sha on merge_request_diff_commits (sha)`.execute(db);
};
