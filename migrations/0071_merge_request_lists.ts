import { type Kysely, sql } from 'kysely';

/**
 * Indexes with which a page of a list of merge requests costs the same among twenty thousand as among a million
 * (decision 41): those of each order, and those that find the few rows of a rare filter.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index merge_requests_created on merge_requests (created_at, id);
    create index merge_requests_updated on merge_requests (updated_at, id);
    create index merge_requests_title on merge_requests (title, id);
    create index merge_requests_merged on merge_requests (merged_at, id) where merged_at is not null;
    create index merge_requests_closed on merge_requests (closed_at, id) where closed_at is not null;
    create index merge_requests_by_title on merge_requests (project_id, title, id);
    create index merge_requests_by_merged on merge_requests (project_id, merged_at, id) where merged_at is not null;
    create index merge_requests_by_closed on merge_requests (project_id, closed_at, id) where closed_at is not null;

    drop index merge_requests_state;
    create index merge_requests_by_state on merge_requests (project_id, state, created_at, id);
    create index merge_requests_state on merge_requests (state, created_at, id);
    drop index merge_requests_author;
    create index merge_requests_author on merge_requests (author_id, created_at, id);
    create index merge_requests_by_author on merge_requests (project_id, author_id, created_at, id);
    create index merge_requests_by_source on merge_requests (source_branch, project_id);
    create index merge_requests_by_target on merge_requests (target_branch, project_id);
    create index merge_requests_merge_commit on merge_requests (merge_commit_sha) where merge_commit_sha is not null;
    create index merge_requests_squash_commit on merge_requests (squash_commit_sha) where squash_commit_sha is not null;
    create index merge_requests_search on merge_requests using gin (title gin_trgm_ops, description gin_trgm_ops);
    create index labels_lower_title on labels (lower(title));
    create index milestones_title on milestones (title);
  `.execute(db);
};
