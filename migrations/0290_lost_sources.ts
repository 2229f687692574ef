import { type Kysely, sql } from 'kysely';

/** Open merge requests whose fork was deleted kept the merge status and auto-merge of before. They cannot be merged. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    update merge_requests
    set merge_status = 'cannot_be_merged', branch_missing = true, merge_when_pipeline_succeeds = false,
        merge_user_id = case when not merge_when_pipeline_succeeds then merge_user_id end
    where source_project_id is null and state = 'opened' and merge_status <> 'preparing'`.execute(db);
};
