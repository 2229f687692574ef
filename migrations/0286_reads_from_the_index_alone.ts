import { type Kysely, sql } from 'kysely';

/**
 * For lists that read every row of a large project, issue or merge request: what they check and sort by is in the index.
 * Pipelines of a project have an index for each order. Issues are found by their number without a project. Few jobs have
 * another status than pending, running and success.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index issues_by_id;
    create index issues_by_id on issues (project_id, id) include (state, confidential, author_id);
    create index issues_number on issues (iid, created_at, id);
    drop index notes_issue;
    create index notes_issue on notes (issue_id, id) include (system, confidential, author_id, created_at, updated_at)
      where issue_id is not null;
    drop index notes_merge_request;
    create index notes_merge_request on notes (merge_request_id, id)
      include (system, confidential, author_id, created_at, updated_at) where merge_request_id is not null;
    drop index pipelines_project;
    create index pipelines_project on pipelines (project_id, id) include (source);
    create index pipelines_by_status on pipelines (project_id, status, id) include (source);
    create index pipelines_by_ref on pipelines (project_id, coalesce(ref, ''), id);
    create index pipelines_by_updated on pipelines (project_id, updated_at, id) include (source);
    create index pipelines_by_user on pipelines (project_id, coalesce(user_id, 0), id);
    create index pipelines_by_source on pipelines (project_id, source, id) where source <> 'push';
    create index pipelines_by_name on pipelines (project_id, name, id) where name is not null;
    create index pipelines_with_errors on pipelines (project_id, id) where yaml_errors is not null;
    drop index pipelines_ref;
    create index pipelines_ref on pipelines (project_id, ref, id) include (tag, merge_request_id, source);
    drop index jobs_rare_status;
    create index jobs_rare_status on jobs (status, id) where status not in ('pending', 'running', 'success');
    drop index jobs_rare_status_of_project;
    create index jobs_rare_status_of_project on jobs (project_id, status, id)
      where status not in ('pending', 'running', 'success');
    drop index jobs_pending;
    create index jobs_pending on jobs (id) where status = 'pending'
  `.execute(db);
};
