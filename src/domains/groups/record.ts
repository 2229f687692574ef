import { z } from 'zod';
import { OWNER, VISIBILITIES, visibilityName } from '#domains/access/model.ts';
import { customAttributesField } from '#domains/custom-attributes/rest.ts';
import { PROTECTION_DEFAULTS, type Protection, protectionLevel } from '#domains/settings/protection.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { avatarUrl } from '#domains/users/model.ts';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { EncodedJson } from '#rest/encoded-json.ts';
import { removedInV5 } from '#rest/v5.ts';
import { protectionOf } from './attributes.ts';
import { namespaceAvatarUrl, namespaceWebUrl } from './model.ts';
import type { GroupRow, NamespaceRow } from './queries.ts';
import { type ShareRow, sharesByNamespaceIds } from './shares.ts';
import { type GroupStatistics, groupStatisticsByIds, memberCountsByIds, ownerAvatarsByIds } from './summaries.ts';

const accessLevels = z.array(z.object({ access_level: z.int() }));

const groupStatisticsRecord = z
  .object({
    storage_size: z.int(),
    repository_size: z.int(),
    wiki_size: z.int(),
    lfs_objects_size: z.int(),
    job_artifacts_size: z.int(),
    pipeline_artifacts_size: z.int(),
    packages_size: z.int(),
    snippets_size: z.int(),
    uploads_size: z.int(),
  })
  .meta({ id: 'GroupStatistics' });

const shape = {
  id: z.int(),
  web_url: z.string(),
  name: z.string(),
  path: z.string(),
  description: z.string(),
  visibility: z.enum(VISIBILITIES),
  share_with_group_lock: z.boolean(),
  require_two_factor_authentication: z.boolean(),
  two_factor_grace_period: z.int(),
  project_creation_level: z.string(),
  auto_devops_enabled: z.boolean().nullable(),
  subgroup_creation_level: z.string(),
  emails_disabled: z.boolean(),
  emails_enabled: z.boolean(),
  mentions_disabled: z.boolean().nullable(),
  lfs_enabled: z.boolean(),
  math_rendering_limits_enabled: z.boolean(),
  lock_math_rendering_limits_enabled: z.boolean(),
  default_branch: z.string().nullable(),
  default_branch_protection: removedInV5(z.int(), PROTECTION_DEFAULTS),
  default_branch_protection_defaults: z.object({
    allowed_to_push: accessLevels,
    allow_force_push: z.boolean(),
    allowed_to_merge: accessLevels,
    developer_can_initial_push: z.boolean(),
    code_owner_approval_required: z.boolean(),
  }),
  avatar_url: z.string().nullable(),
  request_access_enabled: z.boolean(),
  full_name: z.string(),
  full_path: z.string(),
  created_at: z.string(),
  parent_id: z.int().nullable(),
  organization_id: z.int(),
  shared_runners_setting: z.string(),
  file_template_project_id: z.int().nullable(),
  wiki_access_level: z.string(),
  assistant_features_enabled: z.boolean(),
  lock_assistant_features_enabled: z.boolean(),
  marked_for_deletion_on: z.string().nullable(),
  repository_storage: z.string(),
  /** These four are only for owners. */
  ip_restriction_ranges: z.string().nullable().optional(),
  ldap_cn: z.string().nullable().optional(),
  ldap_access: z.int().nullable().optional(),
  service_access_tokens_expiration_enforced: z.boolean().optional(),
  statistics: groupStatisticsRecord.optional(),
  /** Only for administrators. */
  max_artifacts_size: z.int().nullable().optional(),
  /** Only for administrators, on request. */
  custom_attributes: customAttributesField,
};

/** A group in lists (specification 3 §2.1). */
export const groupRecord = z.object(shape).meta({ id: 'Group' });

const groupShareRecord = z
  .object({
    group_id: z.int(),
    group_name: z.string(),
    group_full_path: z.string(),
    group_access_level: z.int(),
    expires_at: z.string().nullable(),
  })
  .meta({ id: 'GroupShare' });

export const groupDetailShape = { ...shape, shared_with_groups: z.array(groupShareRecord) };

/** The record of a single group. */
export const groupDetailRecord = z.object(groupDetailShape).meta({ id: 'GroupDetail' });

/** A namespace, also as part of project records. */
export const namespaceRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    path: z.string(),
    kind: z.string(),
    full_path: z.string(),
    parent_id: z.int().nullable(),
    avatar_url: z.string().nullable(),
    web_url: z.string(),
    /** Only for owners. */
    members_count_with_descendants: z.int().optional(),
  })
  .meta({ id: 'Namespace' });

export type GroupRecord = z.output<typeof groupRecord>;
export type GroupDetailRecord = z.output<typeof groupDetailRecord>;
type NamespaceRecord = z.output<typeof namespaceRecord>;

/** Returns the groups' records. `statistics` only applies for administrators. */
export const toGroups = async (
  ctx: Context,
  groups: readonly GroupRow[],
  options: { readonly statistics?: boolean | undefined } = {},
): Promise<GroupRecord[]> => {
  const settings = await getSettings(ctx);
  const statistics =
    options.statistics && ctx.actor.isAdmin ? await groupStatisticsByIds(ctx, groups.map(idOf)) : undefined;
  return groups.map((group) =>
    toGroup(ctx, group, settings.default_branch_protection_defaults, statistics?.get(group.id)),
  );
};

/** Returns the records without statistics, ready to send. Each is serialised once for each version of its row. */
export const toEncodedGroups = async (
  ctx: Context,
  groups: readonly GroupRow[],
): Promise<EncodedJson<GroupRecord>[]> => {
  const { default_branch_protection_defaults: protection } = await getSettings(ctx);
  return groups.map((group) => {
    // The record depends on the caller only by their being an administrator or an owner. Besides the row, only the
    // settings can change it.
    const texts = textsFor(ctx, group)(ctx.services);
    const version = group.remembered ?? group;
    const known = texts.get(version);
    if (known?.protection === protection) return known.record;
    const record = new EncodedJson(toGroup(ctx, group, protection, undefined));
    texts.set(version, { protection, record });
    return record;
  });
};

interface GroupText {
  readonly protection: Protection;
  readonly record: EncodedJson<GroupRecord>;
}

const textsOfGroups = () =>
  defineCache<object, GroupText>({
    name: 'texts of groups',
    limit: 32 * 1024 * 1024,
    weightOf: ({ record }) => record.bytes.length,
  });
const textsOfAdministrators = textsOfGroups();
const textsOfOwners = textsOfGroups();
const textsOfOthers = textsOfGroups();

const textsFor = ({ actor }: Context, { access_level }: GroupRow) => {
  if (actor.isAdmin) return textsOfAdministrators;
  return access_level >= OWNER ? textsOfOwners : textsOfOthers;
};

/** Returns the record of a single group. */
export const toGroupDetail = async (
  ctx: Context,
  group: GroupRow,
  options: { readonly statistics?: boolean | undefined } = {},
): Promise<GroupDetailRecord> => {
  const settings = await getSettings(ctx);
  const shares = await sharesByNamespaceIds(ctx, [group.id]);
  const statistics = options.statistics && ctx.actor.isAdmin ? await groupStatisticsByIds(ctx, [group.id]) : undefined;
  return {
    ...toGroup(ctx, group, settings.default_branch_protection_defaults, statistics?.get(group.id)),
    shared_with_groups: (shares.get(group.id) ?? []).map(toShare),
  };
};

const idOf = ({ id }: { readonly id: number }) => id;

const toShare = ({ group_id, group_name, group_full_path, group_access_level, expires_at }: ShareRow) => ({
  group_id,
  group_name,
  group_full_path,
  group_access_level,
  expires_at,
});

const toGroup = (
  ctx: Context,
  group: GroupRow,
  instanceProtection: Protection,
  statistics: GroupStatistics | undefined,
): GroupRecord => {
  const protection = protectionOf(group, instanceProtection);
  return {
    id: group.id,
    web_url: namespaceWebUrl(ctx, group),
    name: group.name,
    path: group.path,
    description: group.description,
    visibility: visibilityName(group.visibility_level),
    share_with_group_lock: group.share_with_group_lock,
    require_two_factor_authentication: group.require_two_factor_authentication,
    two_factor_grace_period: group.two_factor_grace_period,
    project_creation_level: group.project_creation_level,
    auto_devops_enabled: group.auto_devops_enabled,
    subgroup_creation_level: group.subgroup_creation_level,
    emails_disabled: !group.emails_enabled,
    emails_enabled: group.emails_enabled,
    mentions_disabled: group.mentions_disabled,
    lfs_enabled: group.lfs_enabled,
    math_rendering_limits_enabled: group.math_rendering_limits_enabled,
    lock_math_rendering_limits_enabled: group.lock_math_rendering_limits_enabled,
    default_branch: group.default_branch,
    default_branch_protection: protectionLevel(protection),
    default_branch_protection_defaults: {
      ...protection,
      allowed_to_push: [...protection.allowed_to_push],
      allowed_to_merge: [...protection.allowed_to_merge],
    },
    avatar_url: namespaceAvatarUrl(ctx, group),
    request_access_enabled: group.request_access_enabled,
    full_name: group.full_name,
    full_path: group.full_path,
    created_at: isoTime(group.created_at),
    parent_id: group.parent_id,
    organization_id: ORGANIZATION_ID,
    shared_runners_setting: group.shared_runners_setting,
    file_template_project_id: group.file_template_project_id,
    wiki_access_level: group.wiki_access_level,
    assistant_features_enabled: group.assistant_features_enabled,
    lock_assistant_features_enabled: group.lock_assistant_features_enabled,
    marked_for_deletion_on: group.marked_for_deletion_on,
    repository_storage: group.repository_storage,
    ...(ctx.actor.isAdmin ? { max_artifacts_size: group.max_artifacts_size } : {}),
    ...(group.access_level >= OWNER
      ? {
          ip_restriction_ranges: group.ip_restriction_ranges,
          ldap_cn: group.ldap_cn,
          ldap_access: group.ldap_access,
          service_access_tokens_expiration_enforced: group.service_access_tokens_expiration_enforced,
        }
      : {}),
    ...(statistics ? { statistics: toStatistics(statistics) } : {}),
  };
};

/** There is one organization, the hub. */
const ORGANIZATION_ID = 1;

const toStatistics = ({ container_registry_size: _registry, ...sizes }: GroupStatistics) => ({
  storage_size: sizes.storage_size,
  repository_size: sizes.repository_size,
  wiki_size: sizes.wiki_size,
  lfs_objects_size: sizes.lfs_objects_size,
  job_artifacts_size: sizes.job_artifacts_size,
  pipeline_artifacts_size: sizes.pipeline_artifacts_size,
  packages_size: sizes.packages_size,
  snippets_size: sizes.snippets_size,
  uploads_size: sizes.uploads_size,
});

/** Returns the namespaces' records. */
export const toNamespaces = async (ctx: Context, namespaces: readonly NamespaceRow[]): Promise<NamespaceRecord[]> => {
  const owned = namespaces.filter((each) => each.kind === 'group' && each.access_level >= OWNER);
  const personal = namespaces.filter((each) => each.kind === 'user');
  const [counts, owners] = await Promise.all([
    memberCountsByIds(ctx, owned.map(idOf)),
    ownerAvatarsByIds(ctx, personal.map(idOf)),
  ]);
  return namespaces.map((namespace) => {
    const owner = owners.get(namespace.id);
    const count = counts.get(namespace.id);
    return {
      id: namespace.id,
      name: namespace.name,
      path: namespace.path,
      kind: namespace.kind,
      full_path: namespace.full_path,
      parent_id: namespace.parent_id,
      avatar_url: owner ? avatarUrl(ctx, owner) : namespaceAvatarUrl(ctx, namespace),
      web_url: namespaceWebUrl(ctx, namespace),
      ...(count === undefined ? {} : { members_count_with_descendants: count }),
    };
  });
};
