import { FEATURE_LEVELS, VISIBILITIES } from '#domains/access/model.ts';
import { PROTECTION_DEFAULTS, protectionOfLevel } from '#domains/settings/protection.ts';
import { MAX_AVATAR_BYTES } from '#domains/users/avatar.ts';
import { tooBig } from '#platform/files/picture.ts';
import type { Input } from '#rest/input.ts';
import { boolean, fileUpload, hash, integer, list, oneOf, text } from '#rest/params.ts';
import { removedInV5 } from '#rest/v5.ts';
import type { GroupAttributes } from '../attributes.ts';
import { PROJECT_CREATION_LEVELS, SHARED_RUNNERS_SETTINGS, SUBGROUP_CREATION_LEVELS } from '../model.ts';

const levels = list(hash({ access_level: integer() }));

/** Inputs for creating and changing groups. */
export const attributes = {
  description: text().nullish(),
  visibility: oneOf(VISIBILITIES).optional(),
  share_with_group_lock: boolean().optional(),
  require_two_factor_authentication: boolean().optional(),
  two_factor_grace_period: integer({ min: 0 }).optional(),
  project_creation_level: oneOf(PROJECT_CREATION_LEVELS).optional(),
  subgroup_creation_level: oneOf(SUBGROUP_CREATION_LEVELS).optional(),
  auto_devops_enabled: boolean().nullish(),
  emails_disabled: boolean().optional(),
  emails_enabled: boolean().optional(),
  mentions_disabled: boolean().nullish(),
  lfs_enabled: boolean().optional(),
  request_access_enabled: boolean().optional(),
  default_branch: text().nullish(),
  default_branch_protection: removedInV5(integer({ min: 0, max: 4 }).optional(), PROTECTION_DEFAULTS),
  default_branch_protection_defaults: hash({
    allowed_to_push: levels.optional(),
    allow_force_push: boolean().optional(),
    allowed_to_merge: levels.optional(),
    developer_can_initial_push: boolean().optional(),
    code_owner_approval_required: boolean().optional(),
  }).optional(),
  wiki_access_level: oneOf(FEATURE_LEVELS).optional(),
  assistant_features_enabled: boolean().optional(),
  lock_assistant_features_enabled: boolean().optional(),
  duo_features_enabled: boolean().optional(),
  lock_duo_features_enabled: boolean().optional(),
  math_rendering_limits_enabled: boolean().optional(),
  lock_math_rendering_limits_enabled: boolean().optional(),
};

/** A PNG, JPEG, GIF or WebP image of at most 200 KiB. An empty value removes it. */
export const avatar = fileUpload({ maxBytes: MAX_AVATAR_BYTES, tooLarge: tooBig(MAX_AVATAR_BYTES) }).nullish();

/** Inputs that upstream accepts only for updates. */
export const updatable = {
  name: text().optional(),
  path: text().optional(),
  file_template_project_id: integer({ min: 1 })
    .nullish()
    .describe('A project in the group or in a group below it that the caller can see.'),
  ip_restriction_ranges: text().nullish(),
  shared_runners_setting: oneOf(SHARED_RUNNERS_SETTINGS).optional(),
  max_artifacts_size: integer({ min: 1, max: 1_000_000 })
    .nullish()
    .describe(
      'Administrators only. The maximum size of an artifact in MiB. Empty: as the group above, or the instance.',
    ),
  service_access_tokens_expiration_enforced: boolean().optional(),
};

/** Maps the parameters to attributes, including older names and other names that clients send. */
export const toAttributes = (input: Input<typeof attributes>): GroupAttributes => {
  const {
    emails_disabled,
    default_branch_protection,
    default_branch_protection_defaults: defaults,
    duo_features_enabled,
    lock_duo_features_enabled,
    ...rest
  } = input;
  const byLevel = default_branch_protection === undefined ? null : protectionOfLevel(default_branch_protection);
  return {
    ...rest,
    assistant_features_enabled: rest.assistant_features_enabled ?? duo_features_enabled,
    lock_assistant_features_enabled: rest.lock_assistant_features_enabled ?? lock_duo_features_enabled,
    emails_enabled: rest.emails_enabled ?? (emails_disabled === undefined ? undefined : !emails_disabled),
    default_branch_protection_defaults: defaults ?? byLevel ?? undefined,
  };
};
