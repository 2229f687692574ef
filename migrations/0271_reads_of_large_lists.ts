import { type Kysely, sql } from 'kysely';

/**
 * Comments of an issue or merge request are counted from the index alone, and so are the newest pipelines of each branch.
 * Few jobs are bridges, canceled, skipped or wait for somebody: their lists no longer read all others.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index notes_issue;
    create index notes_issue on notes (issue_id, id) include (system, confidential) where issue_id is not null;
    drop index notes_merge_request;
    create index notes_merge_request on notes (merge_request_id, id) include (system, confidential)
      where merge_request_id is not null;
    drop index pipelines_ref;
    create index pipelines_ref on pipelines (project_id, ref, id) include (tag, merge_request_id);
    create index jobs_bridges on jobs (id) where kind = 'bridge';
    create index jobs_bridges_of_project on jobs (project_id, id) where kind = 'bridge';
    create index jobs_rare_status on jobs (status, id)
      where status in ('waiting_for_resource', 'preparing', 'waiting_for_callback', 'canceling', 'canceled', 'skipped', 'manual', 'scheduled');
    create index jobs_rare_status_of_project on jobs (project_id, status, id)
      where status in ('waiting_for_resource', 'preparing', 'waiting_for_callback', 'canceling', 'canceled', 'skipped', 'manual', 'scheduled')
  `.execute(db);
};
