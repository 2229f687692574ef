import { type ContainerKind, getContainer } from '#domains/planning/container.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { upperCase } from '#graphql/enums.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { createApprovalRule, deleteApprovalRule, updateApprovalRule } from '../commands.ts';
import { type SettingChanges, updateApprovalSettings } from '../configuring.ts';
import {
  GroupRule,
  newRuleFields,
  ProjectRule,
  peopleOf,
  ReportType,
  ruleChangeFields,
  ruleChangesOf,
  SettingsRef,
} from '../graphql.ts';
import { SETTINGS, type Setting } from '../model.ts';
import { getContainerOfRule } from '../queries.ts';
import { WRITABLE_TYPES } from '../writing.ts';

const WritableType = builder.enumType('WritableApprovalRuleType', { values: upperCase(WRITABLE_TYPES) });
interface SettingInput {
  readonly allowAuthorApproval?: boolean | null | undefined;
  readonly allowCommitterApproval?: boolean | null | undefined;
  readonly allowOverridesToApproverListPerMergeRequest?: boolean | null | undefined;
  readonly retainApprovalsOnPush?: boolean | null | undefined;
  readonly selectiveCodeOwnerRemovals?: boolean | null | undefined;
  readonly requireReauthenticationToApprove?: boolean | null | undefined;
}

const changesOf = (input: SettingInput): SettingChanges => ({
  allow_author_approval: input.allowAuthorApproval ?? undefined,
  allow_committer_approval: input.allowCommitterApproval ?? undefined,
  allow_overrides_to_approver_list_per_merge_request: input.allowOverridesToApproverListPerMergeRequest ?? undefined,
  retain_approvals_on_push: input.retainApprovalsOnPush ?? undefined,
  selective_code_owner_removals: input.selectiveCodeOwnerRemovals ?? undefined,
  require_reauthentication_to_approve: input.requireReauthenticationToApprove ?? undefined,
});

const protectedBranchIds = (t: InputFields) =>
  t.intList({ description: 'Ids as in `protectedBranches`. Without any, the rule applies to all target branches.' });

mutationField('approvalProjectRuleCreate', {
  description: 'Creates an approval rule of a project. Without users and groups it means anyone who may approve.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    ...newRuleFields(t),
    type: t.field({ type: WritableType }),
    reportType: t.field({ type: ReportType }),
    protectedBranchIds: protectedBranchIds(t),
    appliesToAllProtectedBranches: t.boolean(),
  }),
  payload: { approvalRule: ProjectRule },
  run: async (ctx, input) => {
    const approvalRule = await createApprovalRule(ctx, await at(ctx, 'project', input.projectPath), {
      ...peopleOf(input),
      name: input.name,
      approvals_required: input.approvalsRequired,
      rule_type: input.type ?? undefined,
      report_type: input.reportType ?? undefined,
      protected_branch_ids: input.protectedBranchIds ?? undefined,
      applies_to_all_protected_branches: input.appliesToAllProtectedBranches ?? undefined,
    });
    return { approvalRule };
  },
});

mutationField('approvalProjectRuleUpdate', {
  description: 'Changes an approval rule of a project.',
  input: (t) => ({
    id: t.field({ type: 'ApprovalProjectRuleID', required: true }),
    ...ruleChangeFields(t),
    protectedBranchIds: protectedBranchIds(t),
    appliesToAllProtectedBranches: t.boolean(),
  }),
  payload: { approvalRule: ProjectRule },
  run: async (ctx, input) => {
    const container = await getContainerOfRule(ctx, 'project', input.id);
    const approvalRule = await updateApprovalRule(ctx, container, input.id, {
      ...ruleChangesOf(input),
      protected_branch_ids: input.protectedBranchIds ?? undefined,
      applies_to_all_protected_branches: input.appliesToAllProtectedBranches ?? undefined,
    });
    return { approvalRule };
  },
});

mutationField('approvalProjectRuleDelete', {
  description: 'Deletes an approval rule of a project.',
  input: (t) => ({ id: t.field({ type: 'ApprovalProjectRuleID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await deleteApprovalRule(ctx, await getContainerOfRule(ctx, 'project', id), id);
    return {};
  },
});

mutationField('approvalGroupRuleCreate', {
  description: 'Creates an approval rule of a group. Without users and groups it means anyone who may approve.',
  input: (t) => ({ groupPath: t.id({ required: true }), ...newRuleFields(t) }),
  payload: { approvalRule: GroupRule },
  run: async (ctx, input) => {
    const approvalRule = await createApprovalRule(ctx, await at(ctx, 'group', input.groupPath), {
      ...peopleOf(input),
      name: input.name,
      approvals_required: input.approvalsRequired,
    });
    return { approvalRule };
  },
});

mutationField('approvalGroupRuleUpdate', {
  description: 'Changes an approval rule of a group.',
  input: (t) => ({ id: t.field({ type: 'ApprovalGroupRuleID', required: true }), ...ruleChangeFields(t) }),
  payload: { approvalRule: GroupRule },
  run: async (ctx, input) => {
    const container = await getContainerOfRule(ctx, 'group', input.id);
    return { approvalRule: await updateApprovalRule(ctx, container, input.id, ruleChangesOf(input)) };
  },
});

mutationField('approvalGroupRuleDelete', {
  description: 'Deletes an approval rule of a group.',
  input: (t) => ({ id: t.field({ type: 'ApprovalGroupRuleID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await deleteApprovalRule(ctx, await getContainerOfRule(ctx, 'group', id), id);
    return {};
  },
});

const at = (ctx: Context, kind: ContainerKind, path: string) => getContainer(ctx, kind, { path });

const settingFields = (t: InputFields) => {
  const setting = (name: Setting) => t.boolean({ description: SETTINGS[name] });
  return {
    allowAuthorApproval: setting('allow_author_approval'),
    allowCommitterApproval: setting('allow_committer_approval'),
    allowOverridesToApproverListPerMergeRequest: setting('allow_overrides_to_approver_list_per_merge_request'),
    retainApprovalsOnPush: setting('retain_approvals_on_push'),
    selectiveCodeOwnerRemovals: setting('selective_code_owner_removals'),
    requireReauthenticationToApprove: setting('require_reauthentication_to_approve'),
  };
};

mutationField('projectApprovalSettingsUpdate', {
  description: 'Changes how merge requests of a project are approved.',
  input: (t) => ({ projectPath: t.id({ required: true }), ...settingFields(t) }),
  payload: { approvalSettings: SettingsRef },
  run: async (ctx, { projectPath, ...input }) => ({
    approvalSettings: await updateApprovalSettings(ctx, await at(ctx, 'project', projectPath), changesOf(input)),
  }),
});

mutationField('groupApprovalSettingsUpdate', {
  description: 'Changes how merge requests of all projects below a group are approved.',
  input: (t) => ({ groupPath: t.id({ required: true }), ...settingFields(t) }),
  payload: { approvalSettings: SettingsRef },
  run: async (ctx, { groupPath, ...input }) => ({
    approvalSettings: await updateApprovalSettings(ctx, await at(ctx, 'group', groupPath), changesOf(input)),
  }),
});
