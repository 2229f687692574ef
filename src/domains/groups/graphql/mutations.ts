import { AccessLevelEnum, FeatureLevelEnum, VisibilityLevelsEnum } from '#domains/access/graphql.ts';
import type { FeatureLevel, Visibility } from '#domains/access/model.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { GroupAttributes } from '../attributes.ts';
import { createGroup, transferGroup, updateGroup } from '../commands.ts';
import { deleteGroup, restoreGroup } from '../deletion.ts';
import { GroupRef, SharedRunnersSetting } from '../graphql.ts';
import { PROJECT_CREATION_LEVELS, SUBGROUP_CREATION_LEVELS } from '../model.ts';
import { findGroup } from '../queries.ts';
import { shareGroup, unshareGroup } from '../shares.ts';

const BranchRole = builder.inputType('BranchRoleInput', {
  fields: (t) => ({ accessLevel: t.int({ required: true }) }),
});

const BranchProtectionDefaults = builder.inputType('BranchProtectionDefaultsInput', {
  description: 'How the default branch of new projects is protected. Roles: 0 nobody, 30, 40, 60 administrators.',
  fields: (t) => ({
    allowedToPush: t.field({ type: [BranchRole] }),
    allowForcePush: t.boolean(),
    allowedToMerge: t.field({ type: [BranchRole] }),
    developerCanInitialPush: t.boolean(),
    codeOwnerApprovalRequired: t.boolean(),
  }),
});

const ProjectCreationLevel = builder.enumType('GroupProjectCreationLevel', { values: PROJECT_CREATION_LEVELS });
const SubgroupCreationLevel = builder.enumType('GroupSubgroupCreationLevel', { values: SUBGROUP_CREATION_LEVELS });

/** Attributes that owners may set, on creation and later. */
const attributeFields = (t: InputFields) => ({
  description: t.string(),
  visibility: t.field({ type: VisibilityLevelsEnum }),
  shareWithGroupLock: t.boolean(),
  requireTwoFactorAuthentication: t.boolean(),
  twoFactorGracePeriod: t.int(),
  projectCreationLevel: t.field({ type: ProjectCreationLevel }),
  subgroupCreationLevel: t.field({ type: SubgroupCreationLevel }),
  autoDevopsEnabled: t.boolean(),
  emailsEnabled: t.boolean(),
  mentionsDisabled: t.boolean(),
  lfsEnabled: t.boolean(),
  requestAccessEnabled: t.boolean(),
  defaultBranch: t.string(),
  defaultBranchProtectionDefaults: t.field({ type: BranchProtectionDefaults }),
  mathRenderingLimitsEnabled: t.boolean(),
  lockMathRenderingLimitsEnabled: t.boolean(),
  wikiAccessLevel: t.field({ type: FeatureLevelEnum }),
  assistantFeaturesEnabled: t.boolean(),
  lockAssistantFeaturesEnabled: t.boolean(),
});

interface AttributesInput {
  description?: string | null;
  visibility?: Visibility | null;
  shareWithGroupLock?: boolean | null;
  requireTwoFactorAuthentication?: boolean | null;
  twoFactorGracePeriod?: number | null;
  projectCreationLevel?: GroupAttributes['project_creation_level'] | null;
  subgroupCreationLevel?: GroupAttributes['subgroup_creation_level'] | null;
  autoDevopsEnabled?: boolean | null;
  emailsEnabled?: boolean | null;
  mentionsDisabled?: boolean | null;
  lfsEnabled?: boolean | null;
  requestAccessEnabled?: boolean | null;
  defaultBranch?: string | null;
  defaultBranchProtectionDefaults?: {
    allowedToPush?: { accessLevel: number }[] | null;
    allowForcePush?: boolean | null;
    allowedToMerge?: { accessLevel: number }[] | null;
    developerCanInitialPush?: boolean | null;
    codeOwnerApprovalRequired?: boolean | null;
  } | null;
  mathRenderingLimitsEnabled?: boolean | null;
  lockMathRenderingLimitsEnabled?: boolean | null;
  wikiAccessLevel?: FeatureLevel | null;
  assistantFeaturesEnabled?: boolean | null;
  lockAssistantFeaturesEnabled?: boolean | null;
}

const attributesOf = (input: AttributesInput): GroupAttributes => {
  const protection = input.defaultBranchProtectionDefaults;
  const levels = (given: { accessLevel: number }[] | null | undefined) =>
    given?.map(({ accessLevel }) => ({ access_level: accessLevel }));
  return {
    description: input.description,
    visibility: input.visibility ?? undefined,
    share_with_group_lock: input.shareWithGroupLock ?? undefined,
    require_two_factor_authentication: input.requireTwoFactorAuthentication ?? undefined,
    two_factor_grace_period: input.twoFactorGracePeriod ?? undefined,
    project_creation_level: input.projectCreationLevel ?? undefined,
    subgroup_creation_level: input.subgroupCreationLevel ?? undefined,
    auto_devops_enabled: input.autoDevopsEnabled,
    emails_enabled: input.emailsEnabled ?? undefined,
    mentions_disabled: input.mentionsDisabled,
    lfs_enabled: input.lfsEnabled ?? undefined,
    request_access_enabled: input.requestAccessEnabled ?? undefined,
    default_branch: input.defaultBranch,
    math_rendering_limits_enabled: input.mathRenderingLimitsEnabled ?? undefined,
    lock_math_rendering_limits_enabled: input.lockMathRenderingLimitsEnabled ?? undefined,
    wiki_access_level: input.wikiAccessLevel ?? undefined,
    assistant_features_enabled: input.assistantFeaturesEnabled ?? undefined,
    lock_assistant_features_enabled: input.lockAssistantFeaturesEnabled ?? undefined,
    default_branch_protection_defaults: protection
      ? {
          allowed_to_push: levels(protection.allowedToPush),
          allow_force_push: protection.allowForcePush ?? undefined,
          allowed_to_merge: levels(protection.allowedToMerge),
          developer_can_initial_push: protection.developerCanInitialPush ?? undefined,
          code_owner_approval_required: protection.codeOwnerApprovalRequired ?? undefined,
        }
      : undefined,
  };
};

mutationField('groupCreate', {
  description: 'Creates a group; the caller becomes its Owner.',
  input: (t) => ({
    name: t.string({ required: true }),
    path: t.string({ required: true }),
    parentPath: t.id({ description: 'Creates a top-level group if absent.' }),
    ...attributeFields(t),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { name, path, parentPath, ...input }) => ({
    group: await createGroup(ctx, {
      ...attributesOf(input),
      name,
      path,
      parent: parentPath == null ? null : { path: parentPath },
    }),
  }),
});

mutationField('groupUpdate', {
  description: 'Changes a group.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    name: t.string(),
    path: t.string(),
    sharedRunnersSetting: t.field({ type: SharedRunnersSetting }),
    maxArtifactsSize: t.int({ description: 'Administrators only. MiB; null: as the group above, or the instance.' }),
    fileTemplateProjectId: t.field({
      type: 'ProjectID',
      description: 'A project in the group or in a group below it that the caller can see.',
    }),
    ipRestrictionRanges: t.string(),
    serviceAccessTokensExpirationEnforced: t.boolean(),
    ...attributeFields(t),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { fullPath, name, path, ...input }) => ({
    group: await updateGroup(
      ctx,
      { path: fullPath },
      {
        ...attributesOf(input),
        name: name ?? undefined,
        path: path ?? undefined,
        shared_runners_setting: input.sharedRunnersSetting ?? undefined,
        max_artifacts_size: input.maxArtifactsSize,
        file_template_project_id: input.fileTemplateProjectId,
        ip_restriction_ranges: input.ipRestrictionRanges,
        service_access_tokens_expiration_enforced: input.serviceAccessTokensExpirationEnforced ?? undefined,
      },
    ),
  }),
});

mutationField('groupTransfer', {
  description: 'Moves a group with everything below it under another group, or to the top level.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    parentPath: t.id({ description: 'Moves to the top level if absent.' }),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { fullPath, parentPath }) => ({
    group: await transferGroup(ctx, { path: fullPath }, parentPath == null ? null : { path: parentPath }),
  }),
});

mutationField('groupDelete', {
  description:
    'Deletes a group with all groups and projects below it. If the settings give a delay, it is only marked at first.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    permanentlyRemove: t.boolean({ description: 'Removes a group at once that is already marked for deletion.' }),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { fullPath, permanentlyRemove }) => {
    await deleteGroup(ctx, { path: fullPath }, { permanentlyRemove: permanentlyRemove ?? false, fullPath });
    return { group: await findGroup(ctx, { path: fullPath }) };
  },
});

mutationField('groupRestore', {
  description: 'Restores a group that is marked for deletion.',
  input: (t) => ({ fullPath: t.id({ required: true }) }),
  payload: { group: GroupRef },
  run: async (ctx, { fullPath }) => ({ group: await restoreGroup(ctx, { path: fullPath }) }),
});

mutationField('groupShare', {
  description: 'Shares a group with the members of another group, up to a role.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    sharedWithPath: t.id({ required: true }),
    accessLevel: t.field({ type: AccessLevelEnum, required: true }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { fullPath, sharedWithPath, accessLevel, expiresAt }) => ({
    group: await shareGroup(
      ctx,
      { path: fullPath },
      { path: sharedWithPath },
      { group_access: accessLevel, expires_at: expiresAt },
    ),
  }),
});

mutationField('groupUnshare', {
  description: 'Stops sharing a group with another group.',
  input: (t) => ({ fullPath: t.id({ required: true }), sharedWithPath: t.id({ required: true }) }),
  payload: { group: GroupRef },
  run: async (ctx, { fullPath, sharedWithPath }) => {
    await unshareGroup(ctx, { path: fullPath }, { path: sharedWithPath });
    return { group: await findGroup(ctx, { path: fullPath }) };
  },
});
