import { visibilityName } from '#domains/access/model.ts';
import { namespaceAvatarUrl, namespaceWebUrl } from '#domains/groups/model.ts';
import { renderTexts } from '#domains/markdown/html.ts';
import { toUserBasic } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { decryptOrNull } from '#platform/secrets.ts';
import { isoTime } from '#platform/time.ts';
import { apiUrl } from '#platform/urls.ts';
import { findLicense } from './license.ts';
import {
  blobUrl,
  httpUrlToRepo,
  markedForDeletionOn,
  nameWithNamespace,
  projectAvatarUrl,
  projectWebUrl,
  readmeUrl,
  registryPrefix,
  sshUrlToRepo,
  storageSize,
} from './model.ts';
import { can } from './policy.ts';
import type { ProjectDetails, ProjectRow, ProjectWith } from './queries.ts';
import type { ProjectRecord, SimpleProjectRecord } from './rest/record-shape.ts';

export {
  anyProjectRecord,
  type ProjectRecord,
  projectRecord,
  type SimpleProjectRecord,
  simpleProjectRecord,
} from './rest/record-shape.ts';

/** The parts of a project that the simple record reads. */
type SimpleProject = ProjectWith<readonly ['columns', 'access_level', 'namespace']>;

export const toSimpleProject = (ctx: Context, project: SimpleProject): SimpleProjectRecord => ({
  id: project.id,
  description: project.description,
  name: project.name,
  name_with_namespace: nameWithNamespace(project),
  path: project.path,
  path_with_namespace: project.full_path,
  created_at: isoTime(project.created_at),
  default_branch: can(ctx, project, 'read_code') ? project.default_branch : null,
  tag_list: project.topics,
  topics: project.topics,
  ssh_url_to_repo: sshUrlToRepo(ctx, project),
  http_url_to_repo: httpUrlToRepo(ctx, project),
  web_url: projectWebUrl(ctx, project),
  readme_url: can(ctx, project, 'read_code') ? readmeUrl(ctx, project) : null,
  forks_count: project.forks_count,
  avatar_url: projectAvatarUrl(ctx, project),
  star_count: project.star_count,
  last_activity_at: isoTime(project.last_activity_at),
  namespace: {
    id: project.namespace.id,
    name: project.namespace.name,
    path: project.namespace.path,
    kind: project.namespace.kind,
    full_path: project.namespace.full_path,
    parent_id: project.namespace.parent_id,
    avatar_url: namespaceAvatarUrl(ctx, project.namespace),
    web_url: namespaceWebUrl(ctx, project.namespace),
  },
});

/** Adds the licence of the default branch to the record. It is read from the repository. */
export const withLicense = async <R extends SimpleProjectRecord>(
  ctx: Context,
  project: ProjectRow,
  record: R,
  wanted: boolean,
): Promise<R> => {
  if (!wanted) return record;
  const found = await findLicense(ctx, project);
  return {
    ...record,
    license_url: found ? blobUrl(ctx, project, found.path) : null,
    license: found?.license ?? null,
  };
};

/** Returns the record with the settings that the caller can see, without secrets and administrators' settings. */
export const toProjectRecord = async (ctx: Context, project: ProjectDetails): Promise<ProjectRecord> => {
  const [html = ''] = await descriptionHtmls(ctx, [project]);
  return projectRecordWith(ctx, project, html);
};

/** The same for many projects. */
export const toProjectRecords = async (ctx: Context, projects: readonly ProjectDetails[]): Promise<ProjectRecord[]> => {
  const htmls = await descriptionHtmls(ctx, projects);
  return projects.map((project, index) => projectRecordWith(ctx, project, htmls[index] ?? ''));
};

/** Renders the descriptions of projects for the caller, in their order. */
export const descriptionHtmls = (
  ctx: Context,
  projects: readonly Pick<ProjectRow, 'id' | 'description'>[],
): Promise<string[]> =>
  renderTexts(
    ctx,
    projects.map(({ id, description }) => ({ text: description, home: { kind: 'project', id } })),
  );

/** Returns the record with a description that is already rendered. */
export const projectRecordWith = (ctx: Context, project: ProjectDetails, descriptionHtml: string): ProjectRecord => {
  const self = apiUrl(ctx, `projects/${project.id}`);
  const record: ProjectRecord = {
    ...toSimpleProject(ctx, project),
    _links: {
      self,
      ...(can(ctx, project, 'read_issue') ? { issues: `${self}/issues` } : {}),
      ...(can(ctx, project, 'read_merge_request') ? { merge_requests: `${self}/merge_requests` } : {}),
      repo_branches: `${self}/repository/branches`,
      labels: `${self}/labels`,
      events: `${self}/events`,
      members: `${self}/members`,
      cluster_agents: `${self}/cluster_agents`,
    },
    description_html: descriptionHtml,
    updated_at: isoTime(project.updated_at),
    creator_id: project.creator_id,
    visibility: visibilityName(project.visibility_level),
    empty_repo: project.empty_repo,
    archived: project.archived,
    container_registry_image_prefix: registryPrefix(ctx, project),
    import_url: can(ctx, project, 'admin_project') ? project.import_url : null,
    import_type: project.import_type,
    import_status: project.import_status,
    import_error: can(ctx, project, 'admin_project') ? project.import_error : null,
    open_issues_count: can(ctx, project, 'read_issue') ? project.open_issues_count : null,
    issues_access_level: project.issues_access_level,
    repository_access_level: project.repository_access_level,
    merge_requests_access_level: project.merge_requests_access_level,
    forking_access_level: project.forking_access_level,
    wiki_access_level: project.wiki_access_level,
    builds_access_level: project.builds_access_level,
    snippets_access_level: project.snippets_access_level,
    pages_access_level: project.pages_access_level,
    analytics_access_level: project.analytics_access_level,
    container_registry_access_level: project.container_registry_access_level,
    security_and_compliance_access_level: project.security_and_compliance_access_level,
    requirements_access_level: project.requirements_access_level,
    issues_enabled: project.issues_access_level !== 'disabled',
    merge_requests_enabled: project.merge_requests_access_level !== 'disabled',
    wiki_enabled: project.wiki_access_level !== 'disabled',
    jobs_enabled: project.builds_access_level !== 'disabled',
    snippets_enabled: project.snippets_access_level !== 'disabled',
    container_registry_enabled: project.container_registry_access_level !== 'disabled',
    requirements_enabled: project.requirements_access_level !== 'disabled',
    security_and_compliance_enabled: project.security_and_compliance_access_level !== 'disabled',
    packages_enabled: project.packages_enabled,
    service_desk_enabled: project.service_desk_enabled,
    service_desk_address: null,
    can_create_merge_request_in: can(ctx, project, 'create_merge_request_in'),
    emails_disabled: !project.emails_enabled,
    emails_enabled: project.emails_enabled,
    shared_runners_enabled: project.shared_runners_enabled,
    group_runners_enabled: project.group_runners_enabled,
    lfs_enabled: project.lfs_enabled,
    ci_config_path: project.ci_config_path,
    build_coverage_regex: project.build_coverage_regex,
    ci_default_git_depth: project.ci_default_git_depth,
    ci_forward_deployment_enabled: project.ci_forward_deployment_enabled,
    ci_forward_deployment_rollback_allowed: project.ci_forward_deployment_rollback_allowed,
    ci_allow_fork_pipelines_to_run_in_parent_project: project.ci_allow_fork_pipelines_to_run_in_parent_project,
    ci_job_token_scope_enabled: project.ci_job_token_scope_enabled,
    ci_separated_caches: project.ci_separated_caches,
    ci_push_repository_for_job_token_allowed: project.ci_push_repository_for_job_token_allowed,
    ci_restrict_pipeline_cancellation_role: project.ci_restrict_pipeline_cancellation_role,
    ci_pipeline_variables_minimum_override_role: project.ci_pipeline_variables_minimum_override_role,
    restrict_user_defined_variables: project.restrict_user_defined_variables,
    auto_cancel_pending_pipelines: project.auto_cancel_pending_pipelines,
    auto_devops_enabled: project.auto_devops_enabled,
    auto_devops_deploy_strategy: project.auto_devops_deploy_strategy,
    build_timeout: project.build_timeout,
    build_git_strategy: project.build_git_strategy,
    public_jobs: project.public_jobs,
    keep_latest_artifact: project.keep_latest_artifact,
    merge_pipelines_enabled: project.merge_pipelines_enabled,
    runner_token_expiration_interval: project.runner_token_expiration_interval,
    merge_method: project.merge_method,
    squash_option: project.squash_option,
    suggestion_commit_message: project.suggestion_commit_message,
    merge_commit_template: project.merge_commit_template,
    squash_commit_template: project.squash_commit_template,
    issue_branch_template: project.issue_branch_template,
    merge_request_title_regex: project.merge_request_title_regex,
    merge_request_title_regex_description: project.merge_request_title_regex_description,
    only_allow_merge_if_pipeline_succeeds: project.only_allow_merge_if_pipeline_succeeds,
    allow_merge_on_skipped_pipeline: project.allow_merge_on_skipped_pipeline,
    only_allow_merge_if_all_discussions_are_resolved: project.only_allow_merge_if_all_discussions_are_resolved,
    remove_source_branch_after_merge: project.remove_source_branch_after_merge,
    resolve_outdated_diff_discussions: project.resolve_outdated_diff_discussions,
    printing_merge_request_link_enabled: project.printing_merge_request_link_enabled,
    autoclose_referenced_issues: project.autoclose_referenced_issues,
    request_access_enabled: project.request_access_enabled,
    approvals_before_merge: project.approvals_before_merge,
    enforce_auth_checks_on_uploads: project.enforce_auth_checks_on_uploads,
    warn_about_potentially_unwanted_characters: project.warn_about_potentially_unwanted_characters,
    mr_default_target_self: project.mr_default_target_self,
    external_authorization_classification_label: project.external_authorization_classification_label,
    container_expiration_policy: project.container_expiration_policy,
    compliance_frameworks: project.compliance_frameworks,
    shared_with_groups: [...project.shared_with_groups],
    permissions: { project_access: accessOf(project.project_access), group_access: accessOf(project.group_access) },
    marked_for_deletion_at: markedForDeletionOn(project),
    marked_for_deletion_on: markedForDeletionOn(project),
  };
  if (project.forked_from) record.forked_from_project = toSimpleProject(ctx, project.forked_from);
  if (ctx.actor.isAdmin) {
    record.repository_storage = project.repository_storage;
    record.max_artifacts_size = project.max_artifacts_size;
  }
  if (project.owner) {
    record.owner = { ...toUserBasic(ctx, project.owner), created_at: isoTime(project.owner.created_at) };
  }
  if (project.runners_token && can(ctx, project, 'read_runners_token')) {
    const token = decryptOrNull(ctx.services.secretKey, project.runners_token);
    if (token !== null) record.runners_token = token;
  }
  if (project.statistics && can(ctx, project, 'read_statistics')) {
    record.statistics = { ...project.statistics, storage_size: storageSize(project.statistics) };
  }
  return record;
};

/** Notification settings are not kept per project: 3 stands for the global one. */
const GLOBAL_NOTIFICATIONS = 3;

const accessOf = (access_level: number | null) =>
  access_level === null ? null : { access_level, notification_level: GLOBAL_NOTIFICATIONS };
