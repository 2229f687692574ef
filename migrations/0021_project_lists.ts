import { type Kysely, sql } from 'kysely';

/**
 * Indexes that serve lists of projects with index-only scans. Besides the sort columns they contain the columns that
 * decide who may see a row, so that skipped rows are never fetched (docs/decisions/0012).
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index projects_by_created;
    drop index projects_by_activity;
    drop index projects_by_updated;
    drop index projects_by_name;
    drop index projects_by_path;
    drop index projects_by_stars;
    drop index projects_public;
    drop index projects_namespace;
    create index projects_by_id on projects (id) include (namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_created on projects (created_at, id) include (namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_activity on projects (last_activity_at, id) include (namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_updated on projects (updated_at, id) include (namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_name on projects (lower(name), id) include (name, namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_path on projects (path, id) include (namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_stars on projects (star_count, id) include (namespace_id, visibility_level, hidden, pending_delete, archived);
    create index projects_by_visibility on projects (visibility_level, id) include (namespace_id, hidden, pending_delete, archived);
    -- Projects of the user's namespaces are found by namespace and then sorted.
    create index projects_namespace on projects (namespace_id, id) include (visibility_level, hidden, pending_delete, archived,
      created_at, updated_at, last_activity_at, star_count, name, path);
    create index projects_archived on projects (id) where archived;
    create index projects_search_full_path on projects using gin (full_path gin_trgm_ops);

    -- Serves the user's level in the namespace of each row on a page.
    drop index namespace_access_namespace;
    create index namespace_access_namespace on namespace_access (namespace_id, user_id) include (access_level, expires_at, via_share);

    -- Every project has a row here, so that lists by size can read from this table.
    insert into project_statistics (project_id) select id from projects on conflict do nothing;
    create index project_statistics_by_repository on project_statistics (repository_size, project_id);
    create index project_statistics_by_packages on project_statistics (packages_size, project_id);
    create index project_statistics_by_wiki on project_statistics (wiki_size, project_id);
    create index project_statistics_by_storage on project_statistics ((repository_size + wiki_size + lfs_objects_size
      + job_artifacts_size + pipeline_artifacts_size + packages_size + snippets_size + uploads_size), project_id);
  `.execute(db);
};
