import { type Kysely, sql } from 'kysely';

/**
 * Facts about whether a merge request can be merged: whether its source lacks commits of the target, the earliest time
 * to merge it, and a rebase that is under way.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table merge_requests
      add column needs_rebase boolean not null default false,
      add column merge_after timestamptz,
      add column rebasing jsonb;
    create index merge_requests_auto_merge on merge_requests (project_id)
      where merge_when_pipeline_succeeds and state = 'opened';
    create index merge_requests_auto_merge_source on merge_requests (source_project_id)
      where merge_when_pipeline_succeeds and state = 'opened'`.execute(db);
};
