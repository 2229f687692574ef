import { type Kysely, sql } from 'kysely';

/** The indexes of the orders over all projects have the project, so that a walk in a group skips the others (decision 41). */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index issues_created, issues_updated, issues_title, issues_due, issues_weight, issues_position;
    create index issues_created on issues (created_at, id) include (project_id);
    create index issues_updated on issues (updated_at, id) include (project_id);
    create index issues_title on issues (title, id) include (project_id);
    create index issues_due on issues (due_date, id) include (project_id) where due_date is not null;
    create index issues_weight on issues (weight, id) include (project_id) where weight is not null;
    create index issues_position on issues (relative_position, id) include (project_id)
      where relative_position is not null;
    drop index merge_requests_created, merge_requests_updated, merge_requests_title, merge_requests_merged,
      merge_requests_closed, merge_requests_state;
    create index merge_requests_created on merge_requests (created_at, id) include (project_id);
    create index merge_requests_updated on merge_requests (updated_at, id) include (project_id);
    create index merge_requests_title on merge_requests (title, id) include (project_id);
    create index merge_requests_merged on merge_requests (merged_at, id) include (project_id) where merged_at is not null;
    create index merge_requests_closed on merge_requests (closed_at, id) include (project_id) where closed_at is not null;
    create index merge_requests_state on merge_requests (state, created_at, id) include (project_id)
  `.execute(db);
};
