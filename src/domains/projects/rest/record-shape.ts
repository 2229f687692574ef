import { z } from 'zod';
import { VISIBILITIES } from '#domains/access/model.ts';
import { customAttributesField } from '#domains/custom-attributes/rest.ts';
import { userBasicRecord } from '#domains/users/record.ts';
import { apiLink, removedInV5 } from '#rest/v5.ts';
import { containerExpirationPolicy, removedAttributes } from '../attributes.ts';

const namespace = z.object({
  id: z.int(),
  name: z.string(),
  path: z.string(),
  kind: z.string(),
  full_path: z.string(),
  parent_id: z.int().nullable(),
  avatar_url: z.string().nullable(),
  web_url: z.string(),
});

const license = z.object({
  key: z.string(),
  name: z.string(),
  nickname: z.string().nullable(),
  html_url: z.string().nullable(),
  source_url: z.string().nullable(),
});

const simple = {
  id: z.int(),
  description: z.string().nullable(),
  name: z.string(),
  name_with_namespace: z.string(),
  path: z.string(),
  path_with_namespace: z.string(),
  created_at: z.string(),
  default_branch: z.string().nullable(),
  tag_list: removedInV5(z.array(z.string()), removedAttributes.tag_list),
  topics: z.array(z.string()),
  ssh_url_to_repo: z.string(),
  http_url_to_repo: z.string(),
  web_url: z.string(),
  readme_url: z.string().nullable(),
  forks_count: z.int(),
  avatar_url: z.string().nullable(),
  star_count: z.int(),
  last_activity_at: z.string(),
  namespace,
  /** Only for a single project, on request. */
  license_url: z.string().nullable().optional(),
  license: license.nullable().optional(),
  /** Only for administrators, on request. */
  custom_attributes: customAttributesField,
};

/** The simple record: for anonymous callers, and with `simple` (specification 1 §2.7). */
export const simpleProjectRecord = z.object(simple).meta({ id: 'SimpleProject' });

const access = z.object({ access_level: z.int(), notification_level: z.int() }).nullable();
const link = apiLink(z.string());
const level = z.string();
const flag = z.boolean();
const text = z.string().nullable();

const statistics = z.object({
  commit_count: z.int(),
  storage_size: z.int(),
  repository_size: z.int(),
  wiki_size: z.int(),
  lfs_objects_size: z.int(),
  job_artifacts_size: z.int(),
  pipeline_artifacts_size: z.int(),
  packages_size: z.int(),
  snippets_size: z.int(),
  uploads_size: z.int(),
  container_registry_size: z.int(),
});

/** The full record. */
export const projectRecord = z
  .object({
    ...simple,
    _links: z.object({
      self: link,
      /** If the caller can read them. */
      issues: link.optional(),
      merge_requests: link.optional(),
      repo_branches: link,
      labels: link,
      events: link,
      members: link,
      cluster_agents: link,
    }),
    description_html: z.string(),
    updated_at: z.string(),
    creator_id: z.int().nullable(),
    visibility: z.enum(VISIBILITIES),
    empty_repo: flag,
    archived: flag,
    owner: userBasicRecord.extend({ created_at: z.string() }).optional(),
    container_registry_image_prefix: z.string(),
    import_url: text,
    import_type: text,
    import_status: z.string(),
    import_error: text,
    open_issues_count: z
      .int()
      .nullable()
      .describe('The same number for everyone who can read issues: confidential ones are not counted.'),
    issues_access_level: level,
    repository_access_level: level,
    merge_requests_access_level: level,
    forking_access_level: level,
    wiki_access_level: level,
    builds_access_level: level,
    snippets_access_level: level,
    pages_access_level: level,
    analytics_access_level: level,
    container_registry_access_level: level,
    security_and_compliance_access_level: level,
    requirements_access_level: level,
    issues_enabled: flag,
    merge_requests_enabled: flag,
    wiki_enabled: flag,
    jobs_enabled: flag,
    snippets_enabled: flag,
    container_registry_enabled: removedInV5(flag, removedAttributes.container_registry_enabled),
    requirements_enabled: flag,
    security_and_compliance_enabled: flag,
    packages_enabled: flag.nullable(),
    service_desk_enabled: flag,
    service_desk_address: text,
    can_create_merge_request_in: flag,
    emails_disabled: flag.nullable(),
    emails_enabled: flag.nullable(),
    shared_runners_enabled: flag,
    group_runners_enabled: flag,
    lfs_enabled: flag,
    ci_config_path: text,
    build_coverage_regex: text,
    ci_default_git_depth: z.int().nullable(),
    ci_forward_deployment_enabled: flag,
    ci_forward_deployment_rollback_allowed: flag,
    ci_allow_fork_pipelines_to_run_in_parent_project: flag,
    ci_job_token_scope_enabled: flag,
    ci_separated_caches: flag,
    ci_push_repository_for_job_token_allowed: flag,
    ci_restrict_pipeline_cancellation_role: z.string(),
    ci_pipeline_variables_minimum_override_role: z.string(),
    restrict_user_defined_variables: flag,
    auto_cancel_pending_pipelines: z.string(),
    auto_devops_enabled: flag,
    auto_devops_deploy_strategy: z.string(),
    build_timeout: z.int(),
    build_git_strategy: z.string(),
    public_jobs: flag,
    keep_latest_artifact: flag,
    merge_pipelines_enabled: flag,
    runner_token_expiration_interval: z.int().nullable(),
    runners_token: z.string().optional(),
    merge_method: z.string(),
    squash_option: z.string(),
    suggestion_commit_message: text,
    merge_commit_template: text,
    squash_commit_template: text,
    issue_branch_template: text,
    merge_request_title_regex: text,
    merge_request_title_regex_description: text,
    only_allow_merge_if_pipeline_succeeds: flag,
    allow_merge_on_skipped_pipeline: flag.nullable(),
    only_allow_merge_if_all_discussions_are_resolved: flag,
    remove_source_branch_after_merge: flag,
    resolve_outdated_diff_discussions: flag,
    printing_merge_request_link_enabled: flag,
    autoclose_referenced_issues: flag,
    request_access_enabled: flag,
    approvals_before_merge: removedInV5(z.int(), removedAttributes.approvals_before_merge),
    enforce_auth_checks_on_uploads: flag,
    warn_about_potentially_unwanted_characters: flag,
    mr_default_target_self: flag,
    external_authorization_classification_label: z.string(),
    container_expiration_policy: containerExpirationPolicy,
    compliance_frameworks: z.array(z.string()),
    shared_with_groups: z.array(
      z.object({
        group_id: z.int(),
        group_name: z.string(),
        group_full_path: z.string(),
        group_access_level: z.int(),
        expires_at: z.string().nullable(),
      }),
    ),
    permissions: z.object({ project_access: access, group_access: access }),
    /** Only for forks, if the caller can see the source. */
    forked_from_project: simpleProjectRecord.optional(),
    marked_for_deletion_at: removedInV5(text, { replacedBy: 'marked_for_deletion_on' }),
    marked_for_deletion_on: text,
    repository_storage: z.string().optional(),
    max_artifacts_size: z.int().nullable().optional(),
    statistics: statistics.optional(),
  })
  .meta({ id: 'Project' });

/** The full form comes first in the union, because a full record also matches the simple form. */
export const anyProjectRecord = z.union([projectRecord, simpleProjectRecord]);

export type SimpleProjectRecord = z.output<typeof simpleProjectRecord>;
export type ProjectRecord = z.output<typeof projectRecord>;
