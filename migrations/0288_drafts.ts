import { type Kysely, sql } from 'kysely';

/** Few merge requests are drafts: their list read all of the project (decision 41). */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index merge_requests_drafts on merge_requests (project_id, id) where draft`.execute(db);
};
