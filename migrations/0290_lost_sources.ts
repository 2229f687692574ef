import { type Kysely, sql } from 'kysely';

/** Open merge requests whose fork was deleted kept the merge status of before. They cannot be merged. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    update merge_requests set merge_status = 'cannot_be_merged', branch_missing = true
    where source_project_id is null and state = 'opened' and merge_status <> 'preparing'`.execute(db);
};
