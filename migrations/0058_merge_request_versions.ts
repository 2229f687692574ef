import { type Kysely, sql } from 'kysely';

/** A merge request keeps every version of its diff. Until now it had the newest one only. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table merge_request_diffs drop constraint merge_request_diffs_merge_request_id_key;
    alter table merge_request_diffs add column is_latest boolean not null default true;
    create unique index merge_request_diffs_latest on merge_request_diffs (merge_request_id) where is_latest;
    create index merge_request_diffs_versions on merge_request_diffs (merge_request_id, id);
    alter table merge_request_diff_files add column collapsed boolean not null default false;
    alter table merge_requests drop constraint merge_requests_merge_status_check;
    alter table merge_requests add constraint merge_requests_merge_status_check check (merge_status in
      ('preparing', 'unchecked', 'checking', 'can_be_merged', 'cannot_be_merged', 'cannot_be_merged_recheck'));
    create index merge_requests_open_target on merge_requests (project_id, target_branch)
      where state in ('opened', 'locked');
  `.execute(db);
};
