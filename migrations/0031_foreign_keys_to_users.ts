import { type Kysely, sql } from 'kysely';

/**
 * Indexes for foreign keys to users. Removing an account searches for its contributions, and without an index Postgres
 * reads whole tables. If most rows reference no user, the index contains only those that do.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index award_emoji_user on award_emoji (user_id);
    create index invitations_created_by on invitations (created_by_id) where created_by_id is not null;
    create index issues_closed_by on issues (closed_by_id) where closed_by_id is not null;
    create index issues_last_edited_by on issues (last_edited_by_id) where last_edited_by_id is not null;
    create index issues_updated_by on issues (updated_by_id) where updated_by_id is not null;
    create index jobs_user on jobs (user_id) where user_id is not null;
    create index members_created_by on members (created_by_id) where created_by_id is not null;
    create index merge_request_approvals_user on merge_request_approvals (user_id);
    create index merge_requests_closed_by on merge_requests (closed_by_id) where closed_by_id is not null;
    create index merge_requests_last_edited_by on merge_requests (last_edited_by_id) where last_edited_by_id is not null;
    create index merge_requests_merge_user on merge_requests (merge_user_id) where merge_user_id is not null;
    create index merge_requests_updated_by on merge_requests (updated_by_id) where updated_by_id is not null;
    create index notes_author on notes (author_id) where author_id is not null;
    create index notes_resolved_by on notes (resolved_by_id) where resolved_by_id is not null;
    create index notes_updated_by on notes (updated_by_id) where updated_by_id is not null;
    create index oauth_device_grants_user on oauth_device_grants (user_id) where user_id is not null;
    create index pipeline_schedules_owner on pipeline_schedules (owner_id) where owner_id is not null;
    create index pipelines_user on pipelines (user_id) where user_id is not null;
    create index project_exports_user on project_exports (user_id) where user_id is not null;
    create index project_imports_user on project_imports (user_id) where user_id is not null;
    create index pushes_user on pushes (user_id) where user_id is not null;
    create index releases_author on releases (author_id) where author_id is not null;
    create index resource_events_user on resource_events (user_id) where user_id is not null;
    create index runners_creator on runners (creator_id) where creator_id is not null;
    create index snippets_author on snippets (author_id) where author_id is not null;
    create index timelogs_user on timelogs (user_id) where user_id is not null;
    create index users_created_by on users (created_by_id) where created_by_id is not null;
    create index webhook_attempts_requested_by on webhook_attempts (requested_by_id) where requested_by_id is not null;
    create index webhooks_created_by on webhooks (created_by_id) where created_by_id is not null;

    -- These tables had partial indexes, which do not help if other rows may have to be deleted too.
    drop index namespaces_owner;
    create unique index namespaces_owner on namespaces (owner_id) where owner_id is not null;
    drop index oauth_access_tokens_user;
    create index oauth_access_tokens_user on oauth_access_tokens (user_id, application_id);
    drop index pushes_open;
    create index pushes_project on pushes (project_id);
    create index ldap_group_links_namespace on ldap_group_links (namespace_id);
  `.execute(db);
};
