import { type Kysely, sql } from 'kysely';

/**
 * Lists by due date, priority and votes sort the few merge requests that have one, and walk the others by id (decision
 * 41).
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index merge_requests_by_id on merge_requests (project_id, id);
    create index award_emoji_votes on award_emoji (merge_request_id) where name = 'thumbsup' and merge_request_id is not null;
    create index labels_with_priority on labels (id) where priority is not null;
    create index milestones_with_due_date on milestones (id) where due_date is not null;
  `.execute(db);
};
