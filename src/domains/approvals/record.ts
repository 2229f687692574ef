import { z } from 'zod';
import { VISIBILITIES, visibilityName } from '#domains/access/model.ts';
import { namespaceAvatarUrl, namespaceWebUrl } from '#domains/groups/model.ts';
import { type NamespaceRow, namespacesByIds } from '#domains/groups/queries.ts';
import { APPROVAL_RULES } from '#domains/projects/attributes.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { type ProtectedBranch, protectedBranchesByProjects } from '#domains/repositories/protected-branches.ts';
import { protectedBranchRecord, toProtectedBranch } from '#domains/repositories/record.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { only } from '#platform/values/only.ts';
import { removedInV5 } from '#rest/v5.ts';
import { type Approvers, eligibleApprovers } from './eligible.ts';
import {
  type ApprovalRule,
  differsFrom,
  REAUTHENTICATION,
  REPORT_TYPES,
  RULE_TYPES,
  SETTINGS,
  type Setting,
} from './model.ts';
import { rulesByIds } from './queries.ts';
import type { GovernedSetting, GovernedSettings } from './settings.ts';

const group = z
  .object({
    id: z.int(),
    name: z.string(),
    path: z.string(),
    description: z.string(),
    visibility: z.enum(VISIBILITIES),
    lfs_enabled: z.boolean(),
    avatar_url: z.string().nullable(),
    web_url: z.string(),
    request_access_enabled: z.boolean(),
    full_name: z.string(),
    full_path: z.string(),
    parent_id: z.int().nullable(),
    ldap_cn: z.null(),
    ldap_access: z.null(),
  })
  .meta({ id: 'ApproverGroup' });

/** The people of a rule, as every record of a rule shows them (specification 2 §2.4). */
const approverShape = {
  eligible_approvers: z.array(userBasicRecord),
  users: z.array(userBasicRecord),
  groups: z.array(group),
  contains_hidden_groups: z.boolean(),
};
type ApproverRecord = z.output<z.ZodObject<typeof approverShape>>;

const ruleShape = {
  id: z.int(),
  name: z.string(),
  rule_type: z.enum(RULE_TYPES),
  report_type: z.enum(REPORT_TYPES).nullable(),
  approvals_required: z.int(),
  ...approverShape,
};

export const approvalRuleRecord = z
  .object({
    ...ruleShape,
    applies_to_all_protected_branches: z.boolean(),
    protected_branches: z.array(protectedBranchRecord),
  })
  .meta({ id: 'ApprovalRule' });
type ApprovalRuleRecord = z.output<typeof approvalRuleRecord>;

/**
 * Returns a function that shows the people of each given rule, stored or derived, in a constant number of statements.
 * `project`: where the rules apply; null for rules of a group.
 */
const approversOf = async (
  ctx: Context,
  project: ProjectRow | null,
  rules: readonly Approvers[],
): Promise<(rule: Approvers) => ApproverRecord> => {
  const eligible = await eligibleApprovers(ctx, [{ project, rules }]);
  const [users, groups] = await Promise.all([
    userBasicsByIds(
      ctx,
      rules.flatMap(({ id, user_ids }) => [...user_ids, ...(eligible.get(id) ?? [])]),
    ),
    namespacesByIds(ctx, [...new Set(rules.flatMap(({ group_ids }) => group_ids))]),
  ]);
  const people = (ids: readonly number[]) => ids.flatMap((id) => users.get(id) ?? []);
  return ({ id, user_ids, group_ids }) => {
    const seen = group_ids.flatMap((groupId) => groups.get(groupId) ?? []);
    return {
      eligible_approvers: people(eligible.get(id) ?? []),
      users: people(user_ids),
      groups: seen.map((each) => toGroup(ctx, each)),
      contains_hidden_groups: seen.length < group_ids.length,
    };
  };
};

/**
 * Returns the records of rules of one project, or of one group (null). Protected branches are for callers who can list
 * them.
 */
export const toApprovalRules = async (
  ctx: Context,
  project: ProjectRow | null,
  rules: readonly ApprovalRule[],
): Promise<ApprovalRuleRecord[]> => {
  const approvers = await approversOf(ctx, project, rules);
  const isBound = rules.some((rule) => rule.applies_to_all_protected_branches || rule.protected_branch_ids.length > 0);
  const branches =
    project && isBound && can(ctx, project, 'read_protected_branch')
      ? ((await protectedBranchesByProjects(ctx, [project.id])).get(project.id) ?? [])
      : [];
  return rules.map((rule) => ({
    ...toRule(rule),
    ...approvers(rule),
    // A rule of a group applies to all protected branches of its projects (specification 2 §4.3).
    applies_to_all_protected_branches: rule.namespace_id !== null || rule.applies_to_all_protected_branches,
    protected_branches: branchesOf(rule, branches).map(toProtectedBranch),
  }));
};

export const toApprovalRule = async (
  ctx: Context,
  project: ProjectRow | null,
  rule: ApprovalRule,
): Promise<ApprovalRuleRecord> => only(await toApprovalRules(ctx, project, [rule]));

/** A rule of a merge request. The rule of the project that it was copied from may be gone. */
export const mergeRequestRuleRecord = z
  .object({
    ...ruleShape,
    source_rule: z.object({ id: z.int(), name: z.string(), approvals_required: z.int() }).nullable(),
    overridden: z.boolean().describe('Whether it differs from the rule that it was copied from.'),
    section: z.string().nullable().describe('The section of the CODEOWNERS file.'),
  })
  .meta({ id: 'MergeRequestApprovalRule' });
type MergeRequestRuleRecord = z.output<typeof mergeRequestRuleRecord>;

/** Returns the records of rules of merge requests of one project. */
export const toMergeRequestRules = async (
  ctx: Context,
  project: ProjectRow,
  rules: readonly ApprovalRule[],
): Promise<MergeRequestRuleRecord[]> => {
  const [approvers, sources] = await Promise.all([
    approversOf(ctx, project, rules),
    rulesByIds(
      ctx,
      rules.flatMap(({ source_rule_id }) => source_rule_id ?? []),
    ),
  ]);
  return rules.map((rule) => {
    const source = sources.get(rule.source_rule_id ?? 0);
    return {
      ...toRule(rule),
      ...approvers(rule),
      source_rule: source ? { id: source.id, name: source.name, approvals_required: source.approvals_required } : null,
      overridden: source !== undefined && differsFrom(rule, source),
      section: null,
    };
  });
};

export const toMergeRequestRule = async (
  ctx: Context,
  project: ProjectRow,
  rule: ApprovalRule,
): Promise<MergeRequestRuleRecord> => only(await toMergeRequestRules(ctx, project, [rule]));

/** Returns the attributes of a rule without its people. */
const toRule = ({ id, name, rule_type, report_type, approvals_required }: ApprovalRule) => ({
  id,
  name,
  rule_type,
  report_type,
  approvals_required,
});

const branchesOf = (rule: ApprovalRule, all: readonly ProtectedBranch[]): readonly ProtectedBranch[] =>
  rule.applies_to_all_protected_branches ? all : all.filter(({ id }) => rule.protected_branch_ids.includes(id));

const toGroup = (ctx: Context, each: NamespaceRow): z.output<typeof group> => ({
  id: each.id,
  name: each.name,
  path: each.path,
  description: each.description,
  visibility: visibilityName(each.visibility_level),
  lfs_enabled: each.lfs_enabled,
  avatar_url: namespaceAvatarUrl(ctx, each),
  web_url: namespaceWebUrl(ctx, each),
  request_access_enabled: each.request_access_enabled,
  full_name: each.full_name,
  full_path: each.full_path,
  parent_id: each.parent_id,
  ldap_cn: null,
  ldap_access: null,
});

const governedSetting = (name: Setting) =>
  z
    .object({ value: z.boolean(), locked: z.boolean(), inherited_from: z.literal('group').nullable() })
    .describe(SETTINGS[name]);

/** Settings with where they come from (reference: merge-requests §5). */
export const approvalSettingsRecord = z
  .object({
    allow_author_approval: governedSetting('allow_author_approval'),
    allow_committer_approval: governedSetting('allow_committer_approval'),
    allow_overrides_to_approver_list_per_merge_request: governedSetting(
      'allow_overrides_to_approver_list_per_merge_request',
    ),
    retain_approvals_on_push: governedSetting('retain_approvals_on_push'),
    selective_code_owner_removals: governedSetting('selective_code_owner_removals'),
    require_password_to_approve: removedInV5(governedSetting('require_reauthentication_to_approve'), REAUTHENTICATION),
    require_reauthentication_to_approve: governedSetting('require_reauthentication_to_approve'),
  })
  .meta({ id: 'ApprovalSettings' });

export const toApprovalSettings = (settings: GovernedSettings): z.output<typeof approvalSettingsRecord> => {
  const shown = ({ value, locked, inherited_from }: GovernedSetting) => ({ value, locked, inherited_from });
  const reauthentication = shown(settings.require_reauthentication_to_approve);
  return {
    allow_author_approval: shown(settings.allow_author_approval),
    allow_committer_approval: shown(settings.allow_committer_approval),
    allow_overrides_to_approver_list_per_merge_request: shown(
      settings.allow_overrides_to_approver_list_per_merge_request,
    ),
    retain_approvals_on_push: shown(settings.retain_approvals_on_push),
    selective_code_owner_removals: shown(settings.selective_code_owner_removals),
    require_password_to_approve: reauthentication,
    require_reauthentication_to_approve: reauthentication,
  };
};

/** The approval configuration of a project (specification 2 §2.4). */
export const projectApprovalsRecord = z
  .object({
    approvers: removedInV5(z.array(z.never()).describe('Always empty.'), APPROVAL_RULES),
    approver_groups: removedInV5(z.array(z.never()).describe('Always empty.'), APPROVAL_RULES),
    approvals_before_merge: removedInV5(z.int(), APPROVAL_RULES),
    reset_approvals_on_push: z.boolean(),
    selective_code_owner_removals: z.boolean(),
    disable_overriding_approvers_per_merge_request: z.boolean(),
    merge_requests_author_approval: z.boolean(),
    merge_requests_disable_committers_approval: z.boolean(),
    require_password_to_approve: removedInV5(z.boolean(), REAUTHENTICATION),
    require_reauthentication_to_approve: z.boolean(),
  })
  .meta({ id: 'ProjectApprovals' });

export const toProjectApprovals = (
  { approvals_before_merge }: Pick<ProjectRow, 'approvals_before_merge'>,
  settings: GovernedSettings,
): z.output<typeof projectApprovalsRecord> => ({
  approvers: [],
  approver_groups: [],
  approvals_before_merge,
  reset_approvals_on_push: !settings.retain_approvals_on_push.value,
  selective_code_owner_removals: settings.selective_code_owner_removals.value,
  disable_overriding_approvers_per_merge_request: !settings.allow_overrides_to_approver_list_per_merge_request.value,
  merge_requests_author_approval: settings.allow_author_approval.value,
  merge_requests_disable_committers_approval: !settings.allow_committer_approval.value,
  require_password_to_approve: settings.require_reauthentication_to_approve.value,
  require_reauthentication_to_approve: settings.require_reauthentication_to_approve.value,
});
