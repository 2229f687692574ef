import { type Kysely, sql } from 'kysely';

/** An index that finds the merge requests of a commit, no matter how many commits other merge requests have. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index merge_request_diff_commits_sha on merge_request_diff_commits (sha)`.execute(db);
};
