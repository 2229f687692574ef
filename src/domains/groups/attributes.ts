import { z } from 'zod';
import { FEATURE_LEVELS, VISIBILITIES } from '#domains/access/model.ts';
import type { Protection } from '#domains/settings/protection.ts';
import { namespacePathProblems } from '#domains/users/namespace-path.ts';
import { tooLong } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { isStorable } from '#platform/values/storable.ts';
import { PROJECT_CREATION_LEVELS, SHARED_RUNNERS_SETTINGS, SUBGROUP_CREATION_LEVELS } from './model.ts';

const text = (max: number) => z.string('is invalid').max(max, tooLong(max)).refine(isStorable, 'is invalid');

/** Roles that a branch can be limited to: nobody, Developer, Maintainer, administrators. */
const BRANCH_ROLES: readonly number[] = [0, 30, 40, 60];
const levels = z
  .array(z.object({ access_level: z.int().refine((level) => BRANCH_ROLES.includes(level), 'is invalid') }))
  .max(10, 'is too long')
  .readonly();

const protectionDefaults = z.object({
  allowed_to_push: levels.default([{ access_level: 40 }]),
  allow_force_push: z.boolean().default(false),
  allowed_to_merge: levels.default([{ access_level: 40 }]),
  developer_can_initial_push: z.boolean().default(false),
  code_owner_approval_required: z.boolean().default(false),
});

/** Comma-separated networks, such as `10.0.0.0/8,192.0.2.1`. */
const networks = text(2_000).regex(/^[0-9a-fA-F.:/]+(\s*,\s*[0-9a-fA-F.:/]+)*$/, 'is invalid');

/**
 * The attributes of a group that owners can write (specification 3 §2.1), by column name except for `visibility`. The
 * inputs of REST and GraphQL, the checks and the columns derive from it. A new setting needs a column, a line here and
 * a place in the record.
 */
export const groupAttributes = z
  .object({
    name: text(255).refine((value) => value.trim() !== '', "can't be blank"),
    path: z.string('is invalid'),
    description: text(500).nullable(),
    visibility: z.enum(VISIBILITIES),
    share_with_group_lock: z.boolean(),
    require_two_factor_authentication: z.boolean(),
    two_factor_grace_period: z.int().min(0, 'must be greater than or equal to 0').max(1_000_000, 'is too large'),
    project_creation_level: z.enum(PROJECT_CREATION_LEVELS),
    subgroup_creation_level: z.enum(SUBGROUP_CREATION_LEVELS),
    auto_devops_enabled: z.boolean().nullable(),
    emails_enabled: z.boolean(),
    mentions_disabled: z.boolean().nullable(),
    lfs_enabled: z.boolean(),
    request_access_enabled: z.boolean(),
    default_branch: text(255)
      .refine((name) => name === '' || validRefName(name), 'is invalid')
      .nullable(),
    default_branch_protection_defaults: protectionDefaults,
    file_template_project_id: z.int().min(1).nullable(),
    ip_restriction_ranges: networks.nullable(),
    wiki_access_level: z.enum(FEATURE_LEVELS),
    assistant_features_enabled: z.boolean(),
    lock_assistant_features_enabled: z.boolean(),
    math_rendering_limits_enabled: z.boolean(),
    lock_math_rendering_limits_enabled: z.boolean(),
    shared_runners_setting: z.enum(SHARED_RUNNERS_SETTINGS),
    /** MiB. Null: as the group above, or the instance. For administrators. */
    max_artifacts_size: z
      .int()
      .min(1, 'must be greater than or equal to 1')
      .max(1_000_000, 'must be less than or equal to 1000000')
      .nullable(),
    service_access_tokens_expiration_enforced: z.boolean(),
  })
  .partial();

export type GroupAttributes = z.input<typeof groupAttributes>;

/** The attributes whose changes are included in events. */
export const attributeNames = Object.keys(groupAttributes.shape);

/** Returns the errors by attribute; empty if all attributes are valid. */
export const attributeErrors = (
  attributes: GroupAttributes,
  { topLevel }: { readonly topLevel: boolean },
): Record<string, string[]> => {
  const errors: Record<string, string[]> = {};
  for (const issue of groupAttributes.safeParse(attributes).error?.issues ?? []) {
    const field = String(issue.path[0] ?? 'base');
    errors[field] = [
      ...new Set([...(errors[field] ?? []), issue.code === 'invalid_type' ? 'is invalid' : issue.message]),
    ];
  }
  if (attributes.path !== undefined && !errors.path) {
    const problems = namespacePathProblems(attributes.path, { topLevel });
    if (problems.length > 0) errors.path = problems;
  }
  return errors;
};

/**
 * Returns the attributes as columns of `namespaces`, without the undefined ones. The commands set name, path and
 * visibility.
 */
export const columnsOf = (attributes: GroupAttributes) => {
  const {
    name: _name,
    path: _path,
    visibility: _visibility,
    default_branch_protection_defaults: defaults,
    description,
    default_branch,
    ...columns
  } = attributes;
  return {
    ...columns,
    description: description === null ? '' : description,
    default_branch: default_branch === '' ? null : default_branch,
    default_branch_protection_defaults: defaults && JSON.stringify(protectionDefaults.parse(defaults)),
  };
};

/** Completes a partial protection with its current values. */
export const mergedProtection = (
  given: GroupAttributes['default_branch_protection_defaults'],
  present: Protection,
): GroupAttributes['default_branch_protection_defaults'] =>
  given && {
    allowed_to_push: given.allowed_to_push ?? present.allowed_to_push,
    allow_force_push: given.allow_force_push ?? present.allow_force_push,
    allowed_to_merge: given.allowed_to_merge ?? present.allowed_to_merge,
    developer_can_initial_push: given.developer_can_initial_push ?? present.developer_can_initial_push,
    code_owner_approval_required: given.code_owner_approval_required ?? present.code_owner_approval_required,
  };

/**
 * Returns how default branches of new projects are protected: by the group's setting, or the instance's if it has none.
 */
export const protectionOf = (
  group: { readonly default_branch_protection_defaults: unknown },
  instance: Protection,
): Protection => {
  const given = group.default_branch_protection_defaults;
  const own = protectionDefaults.safeParse(given);
  const isSet = typeof given === 'object' && given !== null && Object.keys(given).length > 0;
  return isSet && own.success ? own.data : instance;
};
