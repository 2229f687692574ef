import { RE2JS } from 're2js';
import { z } from 'zod';
import { FEATURE_LEVELS } from '#domains/access/model.ts';
import { invalid, tooLong } from '#platform/errors.ts';
import { isInnerPath, NO_INNER_PATH } from '#platform/values/inner-path.ts';
import { readBoolean } from '#platform/values/read-boolean.ts';

const feature = () => z.enum(FEATURE_LEVELS);
const template = (max = 500) => z.string().max(max).nullable();

/** Limits the time that compiling takes. */
const MAX_PATTERN_LENGTH = 255;
/** Limits the time that one title takes. */
const MAX_PROGRAM_SIZE = 200;

function isTitlePattern(text: string | null): boolean {
  if (text === null) return true;
  // Zod checks this too, but goes on to ask for the pattern.
  if (text.length > MAX_PATTERN_LENGTH) return false;
  try {
    return RE2JS.compile(text).programSize() <= MAX_PROGRAM_SIZE;
  } catch {
    return false;
  }
}

export const containerExpirationPolicy = z.object({
  cadence: z.enum(['1d', '7d', '14d', '1month', '3month']).default('1d'),
  enabled: z.boolean().default(false),
  keep_n: z.int().min(0).max(1_000).nullable().default(10),
  older_than: z.string().max(20).nullable().default('90d'),
  name_regex: z.string().max(255).nullable().default('.*'),
  name_regex_keep: z.string().max(255).nullable().default(null),
  next_run_at: z.string().max(40).nullable().default(null),
});

export type ContainerExpirationPolicy = z.output<typeof containerExpirationPolicy>;

/**
 * Every project setting that maintainers can write, by column name, with its schema. The inputs of REST and GraphQL,
 * `override_params` of an import and the attributes in archives derive from this table. A new setting needs a column, a
 * line here and a place in the record.
 */
const settings = z.object({
  description: z.string().max(2_000).nullable(),
  topics: z.array(z.string().min(1).max(255)).max(100),

  issues_access_level: feature(),
  repository_access_level: feature(),
  merge_requests_access_level: feature(),
  forking_access_level: feature(),
  wiki_access_level: feature(),
  builds_access_level: feature(),
  snippets_access_level: feature(),
  pages_access_level: z.enum([...FEATURE_LEVELS, 'public']),
  analytics_access_level: feature(),
  container_registry_access_level: feature(),
  security_and_compliance_access_level: feature(),
  requirements_access_level: feature(),

  merge_method: z.enum(['merge', 'rebase_merge', 'ff']),
  squash_option: z.enum(['never', 'always', 'default_on', 'default_off']),
  suggestion_commit_message: template(255),
  merge_commit_template: template(),
  squash_commit_template: template(),
  issue_branch_template: template(255),
  /** The pattern (RE2) that titles of merge requests must match before they can be merged. */
  merge_request_title_regex: template(MAX_PATTERN_LENGTH).refine(isTitlePattern, 'is invalid'),
  merge_request_title_regex_description: template(),
  only_allow_merge_if_pipeline_succeeds: z.boolean(),
  allow_merge_on_skipped_pipeline: z.boolean().nullable(),
  merge_pipelines_enabled: z.boolean(),
  only_allow_merge_if_all_discussions_are_resolved: z.boolean(),
  remove_source_branch_after_merge: z.boolean(),
  resolve_outdated_diff_discussions: z.boolean(),
  printing_merge_request_link_enabled: z.boolean(),
  autoclose_referenced_issues: z.boolean(),
  request_access_enabled: z.boolean(),
  approvals_before_merge: z.int().min(0).max(100),

  ci_config_path: z.string().max(255).refine(isInnerPath, NO_INNER_PATH).nullable(),
  build_coverage_regex: z.string().max(255).nullable(),
  ci_default_git_depth: z.int().min(0).max(1_000).nullable(),
  ci_forward_deployment_enabled: z.boolean(),
  ci_forward_deployment_rollback_allowed: z.boolean(),
  ci_allow_fork_pipelines_to_run_in_parent_project: z.boolean(),
  ci_job_token_scope_enabled: z.boolean(),
  ci_separated_caches: z.boolean(),
  ci_push_repository_for_job_token_allowed: z.boolean(),
  ci_restrict_pipeline_cancellation_role: z.enum(['developer', 'maintainer', 'no_one']),
  ci_pipeline_variables_minimum_override_role: z.enum(['owner', 'maintainer', 'developer', 'no_one_allowed']),
  restrict_user_defined_variables: z.boolean(),
  auto_cancel_pending_pipelines: z.enum(['enabled', 'disabled']),
  auto_devops_enabled: z.boolean(),
  auto_devops_deploy_strategy: z.enum(['continuous', 'manual', 'timed_incremental']),
  build_timeout: z.int().min(600).max(2_592_000),
  build_git_strategy: z.enum(['fetch', 'clone']),
  public_jobs: z.boolean(),
  shared_runners_enabled: z.boolean(),
  group_runners_enabled: z.boolean(),
  runner_token_expiration_interval: z.int().min(1).max(2_147_483_647).nullable(),
  keep_latest_artifact: z.boolean(),

  packages_enabled: z.boolean().nullable(),
  service_desk_enabled: z.boolean(),
  emails_enabled: z.boolean(),
  lfs_enabled: z.boolean(),
  enforce_auth_checks_on_uploads: z.boolean(),
  warn_about_potentially_unwanted_characters: z.boolean(),
  mr_default_target_self: z.boolean(),
  external_authorization_classification_label: z.string().max(255),
  container_expiration_policy: containerExpirationPolicy,
});

export const attributeSchemas = settings.shape;
export type AttributeName = keyof typeof attributeSchemas;
export const projectAttributes = settings.partial();
/** Some of a project's settings, by column name. */
export type ProjectAttributes = z.output<typeof projectAttributes>;
export const attributeNames = Object.keys(attributeSchemas).filter(isAttribute);

function isAttribute(name: string): name is AttributeName {
  return Object.hasOwn(attributeSchemas, name);
}

/** The features of a project, keyed by their older on/off names. */
export const featureSwitches = {
  issues_enabled: 'issues_access_level',
  merge_requests_enabled: 'merge_requests_access_level',
  wiki_enabled: 'wiki_access_level',
  jobs_enabled: 'builds_access_level',
  snippets_enabled: 'snippets_access_level',
  container_registry_enabled: 'container_registry_access_level',
  requirements_enabled: 'requirements_access_level',
  security_and_compliance_enabled: 'security_and_compliance_access_level',
} as const satisfies Record<string, AttributeName>;

/** Other names that clients send for the same setting. */
export const attributeAliases = { tag_list: 'topics', public_builds: 'public_jobs' } as const satisfies Record<
  string,
  AttributeName
>;

/** Replaces every number of approvals, and every list of approvers. */
export const APPROVAL_RULES = { replacedBy: 'approval rules' };

/** Attributes that version 5 of the API does not have (specification 1 §9). */
export const removedAttributes = {
  tag_list: { replacedBy: 'topics' },
  approvals_before_merge: APPROVAL_RULES,
  container_registry_enabled: { replacedBy: 'container_registry_access_level' },
} as const;

const EMAILS_DISABLED = 'emails_disabled';

/**
 * Reads settings as a client may send them: under their own names, as on/off switches, under an alias, or as the
 * inverted `emails_disabled`. The proper name takes precedence over the others. Names that are not settings are left
 * out.
 *
 * @throws DomainError `invalid`, naming each invalid value
 */
export const readAttributes = (given: Readonly<Record<string, unknown>>): ProjectAttributes => {
  const found: Record<string, unknown> = {};
  const fields: Record<string, string[]> = {};
  const readSwitch = (name: string, apply: (on: boolean) => void) => {
    const on = coerce(given[name], z.boolean());
    if (typeof on === 'boolean') apply(on);
    else if (on !== undefined && on !== null) fields[name] = ['is invalid'];
  };
  for (const [name, column] of Object.entries(featureSwitches)) {
    readSwitch(name, (on) => {
      found[column] = on ? 'enabled' : 'disabled';
    });
  }
  readSwitch(EMAILS_DISABLED, (off) => {
    found.emails_enabled = !off;
  });
  for (const [alias, column] of Object.entries(attributeAliases)) {
    if (given[alias] !== undefined && given[alias] !== null)
      found[column] = coerce(given[alias], attributeSchemas[column]);
  }
  for (const name of attributeNames)
    if (given[name] !== undefined) found[name] = coerce(given[name], attributeSchemas[name]);
  const parsed = projectAttributes.safeParse(found);
  for (const issue of parsed.error?.issues ?? []) {
    const [name = 'base', member] = issue.path;
    const problem = typeof member === 'string' ? `${member} ${problemOf(issue)}` : problemOf(issue);
    fields[String(name)] = [...new Set([...(fields[String(name)] ?? []), problem])];
  }
  if (!parsed.success || Object.keys(fields).length > 0) throw invalid(fields);
  return parsed.data;
};

/** Whether `readAttributes` knows the name. */
export const isSettingName = (name: string): boolean =>
  isAttribute(name) ||
  Object.hasOwn(featureSwitches, name) ||
  Object.hasOwn(attributeAliases, name) ||
  name === EMAILS_DISABLED;

/** Converts text to the type of the setting: number, boolean or list. So does it with the members of an object. */
export const coerce = (value: unknown, schema: z.core.$ZodType): unknown => {
  if (schema instanceof z.ZodObject && typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const members = Object.entries(value).map(([name, member]): [string, unknown] => {
      const known: z.core.$ZodType | undefined = schema.shape[name];
      // Forms send an empty string for "none".
      return [name, member === '' ? null : known ? coerce(member, known) : member];
    });
    return Object.fromEntries(members);
  }
  const kind = schemaKind(schema);
  if (kind === 'list' && typeof value === 'string')
    return value
      .split(',')
      .map((each) => each.trim())
      .filter(Boolean);
  if (typeof value === 'number' && kind === 'boolean') return coerce(String(value), schema);
  if (typeof value !== 'string') return value;
  if (kind === 'boolean') return readBoolean(value) ?? value;
  return kind === 'integer' && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
};

export type AttributeKind = 'boolean' | 'integer' | 'list' | 'object' | 'enum' | 'text';

/** Returns the type of value that a setting holds, ignoring nullable and the default. */
export const schemaKind = (schema: z.core.$ZodType): AttributeKind => {
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) return schemaKind(schema.unwrap());
  if (schema instanceof z.ZodBoolean) return 'boolean';
  if (schema instanceof z.ZodNumber) return 'integer';
  if (schema instanceof z.ZodArray) return 'list';
  if (schema instanceof z.ZodObject) return 'object';
  return schema instanceof z.ZodEnum ? 'enum' : 'text';
};

/** Describes a validation issue as a sentence that follows the name of the setting. */
export const problemOf = (issue: z.core.$ZodIssue): string => {
  if (issue.code === 'too_big')
    return issue.origin === 'string' ? tooLong(issue.maximum) : `must be less than or equal to ${issue.maximum}`;
  if (issue.code === 'too_small')
    return issue.origin === 'string' ? "can't be blank" : `must be greater than or equal to ${issue.minimum}`;
  if (issue.code === 'custom') return issue.message;
  return issue.code === 'invalid_value'
    ? `does not have a valid value (allowed: ${issue.values.join(', ')})`
    : 'is invalid';
};
