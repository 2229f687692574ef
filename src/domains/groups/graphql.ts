import { ObjectFieldBuilder, type ObjectFieldThunk } from '@pothos/core';
import { AccessLevelRef, VisibilityLevelsEnum } from '#domains/access/graphql.ts';
import { type Visibility, visibilityName } from '#domains/access/model.ts';
import { loadHtml } from '#domains/markdown/graphql.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Selection } from '#graphql/lookahead.ts';
import type { Context } from '#platform/context.ts';
import { protectionOf } from './attributes.ts';
import { listGroupsBelow, listGroupsSharedWith } from './listing.ts';
import { namespaceAvatarUrl, namespaceWebUrl, SHARED_RUNNERS_SETTINGS } from './model.ts';
import { canOnGroup, type GroupAbility } from './policy.ts';
import { type GroupRow, type NamespaceRow, namespacesByIds } from './queries.ts';
import { sharesByNamespaceIds } from './shares.ts';
import { type GroupStatistics, groupCountsByIds, groupStatisticsByIds } from './summaries.ts';

/** The minimum that resolves to a Namespace. The rest is loaded on demand. */
type NamespaceNode = NamespaceRow | Pick<NamespaceRow, 'id' | NamespaceColumn>;
const NAMESPACE_COLUMNS = ['name', 'path', 'kind', 'full_path', 'full_name', 'visibility_level'] as const;
type NamespaceColumn = (typeof NAMESPACE_COLUMNS)[number];

/** Loads the namespace with this id if the caller can see it. Batches concurrent calls. */
const loadNamespace: (ctx: Context, id: number) => Promise<NamespaceRow | null> = loader(namespacesByIds);

/** Loads the group with this id; null for a personal namespace. */
export const loadGroup = async (ctx: Context, id: number): Promise<GroupRow | null> => {
  const namespace = await loadNamespace(ctx, id);
  return namespace?.kind === 'group' ? namespace : null;
};

const loadStatistics = loader(groupStatisticsByIds);
const loadCounts = loader(groupCountsByIds);
const loadShares = loader(sharesByNamespaceIds);

const wholeRow = (ctx: Context, node: NamespaceNode): NamespaceRow | Promise<NamespaceRow | null> =>
  'traversal_ids' in node && 'description' in node ? node : loadNamespace(ctx, node.id);

/** Returns the global id. Personal namespaces have their own model name. */
const namespaceGid = ({ kind, id }: { readonly kind: string; readonly id: number }): string =>
  gid(kind === 'group' ? 'Group' : 'Namespaces::UserNamespace', id);

export const SharedRunnersSetting = builder.enumType('SharedRunnersSetting', {
  values: upperCase(SHARED_RUNNERS_SETTINGS),
});

const sharedRunnersOf = (row: NamespaceRow | null) =>
  SHARED_RUNNERS_SETTINGS.find((setting) => setting === row?.shared_runners_setting);

const RootStorageStatistics = builder.objectRef<GroupStatistics>('RootStorageStatistics').implement({
  description: 'The storage of all projects below, in bytes.',
  fields: (t) => ({
    storageSize: t.exposeFloat('storage_size', { nullable: false }),
    repositorySize: t.exposeFloat('repository_size', { nullable: false }),
    lfsObjectsSize: t.exposeFloat('lfs_objects_size', { nullable: false }),
    buildArtifactsSize: t.exposeFloat('job_artifacts_size', { nullable: false }),
    pipelineArtifactsSize: t.exposeFloat('pipeline_artifacts_size', { nullable: false }),
    packagesSize: t.exposeFloat('packages_size', { nullable: false }),
    wikiSize: t.exposeFloat('wiki_size', { nullable: false }),
    snippetsSize: t.exposeFloat('snippets_size', { nullable: false }),
    uploadsSize: t.exposeFloat('uploads_size', { nullable: false }),
    containerRegistrySize: t.exposeFloat('container_registry_size', { nullable: false }),
    registrySizeEstimated: t.boolean({ nullable: false, resolve: () => false }),
    costFactoredStorageSize: t.exposeFloat('storage_size', { nullable: false }),
  }),
});

const statisticsFor = async (ctx: Context, node: NamespaceNode): Promise<GroupStatistics | null> => {
  const row = await wholeRow(ctx, node);
  return row && canOnGroup(ctx, row, 'read_statistics') ? loadStatistics(ctx, row.id) : null;
};

/** A group or personal namespace. Downstream domains add fields with `builder.objectField(NamespaceRef, ...)`. */
export const NamespaceRef = builder.objectRef<NamespaceNode>('Namespace').implement({
  description: 'A container of projects: a group, or the personal namespace of a user.',
  fields: (t) => ({
    description: t.string({
      nullable: true,
      resolve: async (node, _args, ctx) => (await wholeRow(ctx, node))?.description,
    }),
    lfsEnabled: t.boolean({
      nullable: true,
      resolve: async (node, _args, ctx) => (await wholeRow(ctx, node))?.lfs_enabled,
    }),
    requestAccessEnabled: t.boolean({
      nullable: true,
      resolve: async (node, _args, ctx) => (await wholeRow(ctx, node))?.request_access_enabled,
    }),
    sharedRunnersSetting: t.field({
      type: SharedRunnersSetting,
      nullable: true,
      resolve: async (node, _args, ctx) => sharedRunnersOf(await wholeRow(ctx, node)),
    }),
    rootStorageStatistics: t.field({
      type: RootStorageStatistics,
      nullable: true,
      description: 'Requires at least the Reporter role.',
      resolve: (node, _args, ctx) => statisticsFor(ctx, node),
    }),
  }),
});

const columnsOfField = new Map<string, readonly NamespaceColumn[]>();

/** Adds a field to Namespace that can read only these columns, so that lists of projects select no more. */
const namespaceField = <const Column extends NamespaceColumn>(
  name: string,
  columns: readonly Column[],
  field: ObjectFieldThunk<Types, Pick<NamespaceRow, 'id' | Column>>,
): void => {
  columnsOfField.set(name, columns);
  builder.objectField(NamespaceRef, name, () => field(new ObjectFieldBuilder(builder)));
};

/** Returns the columns that a selection of Namespace reads. Fields without `namespaceField` load the whole row. */
export const namespaceColumns = (selection: Selection): readonly NamespaceColumn[] =>
  Object.keys(selection).flatMap((field) => columnsOfField.get(field) ?? NAMESPACE_COLUMNS);

namespaceField('id', ['kind'], (t) => t.id({ nullable: false, resolve: namespaceGid }));
namespaceField('name', ['name'], (t) => t.exposeString('name', { nullable: false }));
namespaceField('path', ['path'], (t) => t.exposeString('path', { nullable: false }));
namespaceField('fullName', ['full_name'], (t) => t.exposeString('full_name', { nullable: false }));
namespaceField('fullPath', ['full_path'], (t) => t.exposeID('full_path', { nullable: false }));
namespaceField('kind', ['kind'], (t) => t.exposeString('kind', { nullable: false }));
namespaceField('visibility', ['visibility_level'], (t) =>
  t.string({ nullable: true, resolve: (node) => visibilityName(node.visibility_level) }),
);
namespaceField('webUrl', ['kind', 'full_path'], (t) =>
  t.string({ nullable: false, resolve: (node, _args, ctx) => namespaceWebUrl(ctx, node) }),
);

const GroupPermissions = builder.objectRef<GroupRow>('GroupPermissions').implement({
  description: 'What the caller may do with the group.',
  fields: (t) => {
    const may = (ability: GroupAbility) =>
      t.boolean({ nullable: false, resolve: (group, _args, ctx) => canOnGroup(ctx, group, ability) });
    return {
      readGroup: may('read_group'),
      adminGroup: may('admin_group'),
      removeGroup: may('remove_group'),
      createProjects: may('create_projects'),
      createSubgroup: may('create_subgroup'),
      importProjects: may('import_projects'),
      adminGroupMember: may('admin_member'),
      adminWebHook: may('admin_hook'),
    };
  },
});

/** A group. Downstream domains add fields with `builder.objectField(GroupRef, ...)`. */
export const GroupRef = builder.objectRef<GroupRow>('Group');
export const GroupConnection = builder.connectionObject(
  { type: GroupRef, name: 'GroupConnection' },
  { name: 'GroupEdge' },
);

const GroupShare = builder
  .objectRef<{ group_id: number; group_access_level: number; expires_at: string | null }>('GroupShare')
  .implement({
    description: 'A group whose members have access to something, up to a role.',
    fields: (t) => ({
      sharedWithGroup: t.field({
        type: GroupRef,
        nullable: true,
        resolve: (share, _args, ctx) => loadGroup(ctx, share.group_id),
      }),
      accessLevel: t.field({ type: AccessLevelRef, nullable: false, resolve: (share) => share.group_access_level }),
      expiresAt: t.expose('expires_at', { type: 'Date', nullable: true }),
    }),
  });

interface BelowArguments extends ConnectionArguments {
  readonly search?: string | null | undefined;
  readonly includeParentDescendants?: boolean | null | undefined;
  readonly owned?: boolean | null | undefined;
}

/** Reads all parents of a level in one statement. */
const groupsBelow = batchedConnection((ctx, args: BelowArguments) =>
  listGroupsBelow(ctx, {
    directly: args.includeParentDescendants === false,
    search: args.search ?? undefined,
    owned: args.owned ?? undefined,
    allAvailable: true,
  }),
);

interface SharedArguments extends ConnectionArguments {
  readonly search?: string | null | undefined;
  readonly visibility?: Visibility | null | undefined;
}

const groupsSharedWith = batchedConnection((ctx, args: SharedArguments) =>
  listGroupsSharedWith(ctx, { search: args.search ?? undefined, visibility: args.visibility ?? undefined }),
);

GroupRef.implement({
  description: 'A group of projects and of other groups.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: namespaceGid }),
    name: t.exposeString('name', { nullable: false }),
    path: t.exposeString('path', { nullable: false }),
    fullName: t.exposeString('full_name', { nullable: false }),
    fullPath: t.exposeID('full_path', { nullable: false }),
    description: t.exposeString('description', { nullable: true }),
    descriptionHtml: t.string({
      nullable: true,
      resolve: ({ id, description }, _args, ctx) => loadHtml(ctx, { text: description, home: { kind: 'group', id } }),
    }),
    visibility: t.string({ nullable: true, resolve: (group) => visibilityName(group.visibility_level) }),
    webUrl: t.string({ nullable: false, resolve: (group, _args, ctx) => namespaceWebUrl(ctx, group) }),
    avatarUrl: t.string({ nullable: true, resolve: (group, _args, ctx) => namespaceAvatarUrl(ctx, group) }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: true }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: true }),
    parent: t.field({
      type: GroupRef,
      nullable: true,
      resolve: (group, _args, ctx) => (group.parent_id === null ? null : loadGroup(ctx, group.parent_id)),
    }),
    lfsEnabled: t.exposeBoolean('lfs_enabled', { nullable: true }),
    requestAccessEnabled: t.exposeBoolean('request_access_enabled', { nullable: true }),
    shareWithGroupLock: t.exposeBoolean('share_with_group_lock', { nullable: true }),
    projectCreationLevel: t.exposeString('project_creation_level', { nullable: true }),
    subgroupCreationLevel: t.exposeString('subgroup_creation_level', { nullable: true }),
    requireTwoFactorAuthentication: t.exposeBoolean('require_two_factor_authentication', { nullable: true }),
    twoFactorGracePeriod: t.exposeInt('two_factor_grace_period', { nullable: true }),
    autoDevopsEnabled: t.exposeBoolean('auto_devops_enabled', { nullable: true }),
    emailsEnabled: t.exposeBoolean('emails_enabled', { nullable: true }),
    emailsDisabled: t.boolean({ nullable: true, resolve: (group) => !group.emails_enabled }),
    mentionsDisabled: t.exposeBoolean('mentions_disabled', { nullable: true }),
    mathRenderingLimitsEnabled: t.exposeBoolean('math_rendering_limits_enabled', { nullable: true }),
    lockMathRenderingLimitsEnabled: t.exposeBoolean('lock_math_rendering_limits_enabled', { nullable: true }),
    sharedRunnersSetting: t.field({
      type: SharedRunnersSetting,
      nullable: true,
      resolve: sharedRunnersOf,
    }),
    wikiAccessLevel: t.exposeString('wiki_access_level', { nullable: true }),
    assistantFeaturesEnabled: t.exposeBoolean('assistant_features_enabled', { nullable: true }),
    lockAssistantFeaturesEnabled: t.exposeBoolean('lock_assistant_features_enabled', { nullable: true }),
    defaultBranch: t.exposeString('default_branch', { nullable: true }),
    defaultBranchProtectionDefaults: t.field({
      type: 'JSON',
      nullable: true,
      description: "As in REST: the group's own setting, or the instance's if it has none.",
      resolve: async (group, _args, ctx) =>
        protectionOf(group, (await getSettings(ctx)).default_branch_protection_defaults),
    }),
    fileTemplateProjectId: t.id({
      nullable: true,
      resolve: ({ file_template_project_id: id }) => (id === null ? null : gid('Project', id)),
    }),
    ipRestrictionRanges: t.string({
      nullable: true,
      description: 'For owners only.',
      resolve: (group, _args, ctx) =>
        canOnGroup(ctx, group, 'read_group_details') ? group.ip_restriction_ranges : null,
    }),
    serviceAccessTokensExpirationEnforced: t.boolean({
      nullable: true,
      description: 'Whether the tokens of service accounts must expire. For owners only.',
      resolve: (group, _args, ctx) =>
        canOnGroup(ctx, group, 'read_group_details') ? group.service_access_tokens_expiration_enforced : null,
    }),
    markedForDeletionOn: t.expose('marked_for_deletion_on', { type: 'Date', nullable: true }),
    repositoryStorage: t.exposeString('repository_storage', { nullable: true }),
    maxAccessLevel: t.field({ type: AccessLevelRef, nullable: false, resolve: (group) => group.access_level }),
    descendantGroupsCount: t.int({
      nullable: false,
      description: 'Groups directly below.',
      resolve: async (group, _args, ctx) => (await loadCounts(ctx, group.id))?.subgroups ?? 0,
    }),
    projectsCount: t.int({
      nullable: false,
      description: 'Projects directly in the group.',
      resolve: async (group, _args, ctx) => (await loadCounts(ctx, group.id))?.projects ?? 0,
    }),
    groupMembersCount: t.int({
      nullable: false,
      description: 'Members of the group itself.',
      resolve: async (group, _args, ctx) => (await loadCounts(ctx, group.id))?.members ?? 0,
    }),
    rootStorageStatistics: t.field({
      type: RootStorageStatistics,
      nullable: true,
      description: 'Requires at least the Reporter role.',
      resolve: (group, _args, ctx) => statisticsFor(ctx, group),
    }),
    sharedWithGroups: t.field({
      type: [GroupShare],
      nullable: true,
      resolve: async (group, _args, ctx) => (await loadShares(ctx, group.id)) ?? [],
    }),
    descendantGroups: t.connection(
      {
        type: GroupRef,
        nullable: true,
        args: {
          search: t.arg.string(),
          includeParentDescendants: t.arg.boolean({
            defaultValue: true,
            description: 'All groups below, not only direct children.',
          }),
          owned: t.arg.boolean(),
        },
        resolve: (group, args, ctx, info) => groupsBelow(group.id, args, ctx, info),
      },
      GroupConnection,
    ),
    sharedGroups: t.connection(
      {
        type: GroupRef,
        nullable: true,
        description: 'Groups that are shared with this group.',
        args: { search: t.arg.string(), visibility: t.arg({ type: VisibilityLevelsEnum }) },
        resolve: (group, args, ctx, info) => groupsSharedWith(group.id, args, ctx, info),
      },
      GroupConnection,
    ),
    userPermissions: t.field({ type: GroupPermissions, nullable: false, resolve: (group) => group }),
  }),
});
