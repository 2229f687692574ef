import {
  type AttributeName,
  attributeNames,
  attributeSchemas,
  type ProjectAttributes,
  problemOf,
} from './attributes.ts';
import type { ProjectColumns } from './model.ts';

/** The place of a setting in an export archive (reference: export-archive §2, §3). */
export type ArchiveFile =
  | 'project'
  | 'project_feature'
  | 'ci_cd_settings'
  | 'container_expiration_policy'
  | 'auto_devops';

interface ArchiveKey {
  readonly file: ArchiveFile;
  readonly key: string;
}

// All other settings are in tree/project.json under their own names.
const archiveKeys: Partial<Record<AttributeName, ArchiveKey | null>> = {
  // Stored as two booleans: see below.
  merge_method: null,
  // Never exported.
  lfs_enabled: null,
  emails_enabled: null,
  container_expiration_policy: null,
  public_jobs: { file: 'project', key: 'public_builds' },
  ci_default_git_depth: { file: 'ci_cd_settings', key: 'default_git_depth' },
  ci_forward_deployment_enabled: { file: 'ci_cd_settings', key: 'forward_deployment_enabled' },
  ci_forward_deployment_rollback_allowed: { file: 'ci_cd_settings', key: 'forward_deployment_rollback_allowed' },
  ci_allow_fork_pipelines_to_run_in_parent_project: {
    file: 'ci_cd_settings',
    key: 'allow_fork_pipelines_to_run_in_parent_project',
  },
  ci_job_token_scope_enabled: { file: 'ci_cd_settings', key: 'job_token_scope_enabled' },
  ci_separated_caches: { file: 'ci_cd_settings', key: 'separated_caches' },
  ci_push_repository_for_job_token_allowed: { file: 'ci_cd_settings', key: 'push_repository_for_job_token_allowed' },
  ci_restrict_pipeline_cancellation_role: { file: 'ci_cd_settings', key: 'restrict_pipeline_cancellation_role' },
  ci_pipeline_variables_minimum_override_role: {
    file: 'ci_cd_settings',
    key: 'pipeline_variables_minimum_override_role',
  },
  restrict_user_defined_variables: { file: 'ci_cd_settings', key: 'restrict_user_defined_variables' },
  merge_pipelines_enabled: { file: 'ci_cd_settings', key: 'merge_pipelines_enabled' },
  group_runners_enabled: { file: 'ci_cd_settings', key: 'group_runners_enabled' },
  runner_token_expiration_interval: { file: 'ci_cd_settings', key: 'runner_token_expiration_interval' },
  keep_latest_artifact: { file: 'ci_cd_settings', key: 'keep_latest_artifact' },
  auto_devops_enabled: { file: 'auto_devops', key: 'enabled' },
  auto_devops_deploy_strategy: { file: 'auto_devops', key: 'deploy_strategy' },
};

const archiveKeyOf = (name: AttributeName): ArchiveKey | null => {
  if (name.endsWith('_access_level')) return { file: 'project_feature', key: name };
  const key = archiveKeys[name];
  return key === undefined ? { file: 'project', key: name } : key;
};

const placed = attributeNames.flatMap((name) => {
  const key = archiveKeyOf(name);
  return key ? [{ name, ...key }] : [];
});

const LEVELS: readonly string[] = ['disabled', 'private', 'enabled', 'public'];

/** Returns the settings that belong in one file of the archive, keyed by the archive's names. */
export const attributesToArchive = (project: ProjectColumns, file: ArchiveFile): Record<string, unknown> => {
  if (file === 'container_expiration_policy') return { ...project.container_expiration_policy };
  const line: Record<string, unknown> = {};
  for (const { name, key } of placed.filter((each) => each.file === file)) {
    const value = project[name];
    line[key] = file === 'project_feature' ? LEVELS.indexOf(String(value)) * 10 : value;
  }
  if (file === 'project') {
    line.visibility_level = project.visibility_level;
    line.archived = project.archived;
    line.build_allow_git_fetch = project.build_git_strategy === 'fetch';
    line.merge_requests_ff_only_enabled = project.merge_method === 'ff';
    line.merge_requests_rebase_enabled = project.merge_method === 'rebase_merge';
  }
  return line;
};

/**
 * Reads the settings from one file of an archive. Invalid values and unknown keys are left out. Calls `report` for each
 * invalid value; null means the default.
 */
export const attributesFromArchive = (
  line: Readonly<Record<string, unknown>>,
  file: ArchiveFile,
  report: (key: string, problem: string) => void = () => undefined,
): ProjectAttributes => {
  const found: Record<string, unknown> = {};
  const take = (name: AttributeName, key: string, given: unknown) => {
    const isLevel = file === 'project_feature' && typeof given === 'number';
    const parsed = attributeSchemas[name].safeParse(isLevel ? LEVELS[given / 10] : given);
    if (parsed.success) found[name] = parsed.data;
    else if (given !== null) report(key, parsed.error.issues.map(problemOf)[0] ?? 'is invalid');
  };
  // Earlier versions of this hub nested the policy.
  if (file === 'container_expiration_policy') take('container_expiration_policy', 'policy', line.policy ?? line);
  for (const { name, key } of placed.filter((each) => each.file === file)) {
    const value = line[key];
    if (value !== undefined) take(name, key, value);
  }
  if (file === 'project') {
    if (line.merge_requests_ff_only_enabled === true) found.merge_method = 'ff';
    else if (line.merge_requests_rebase_enabled === true) found.merge_method = 'rebase_merge';
    // Other platforms have only this switch.
    if (line.build_git_strategy === undefined && typeof line.build_allow_git_fetch === 'boolean')
      found.build_git_strategy = line.build_allow_git_fetch ? 'fetch' : 'clone';
  }
  return found;
};
