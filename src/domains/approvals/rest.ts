import { getContainer } from '#domains/planning/container.ts';
import { APPROVAL_RULES } from '#domains/projects/attributes.ts';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, boolean, commaList, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { removedInV5 } from '#rest/v5.ts';
import { createApprovalRule, deleteApprovalRule, updateApprovalRule } from './commands.ts';
import { configureProjectApprovals, updateApprovalSettings } from './configuring.ts';
import { REAUTHENTICATION, REPORT_TYPES, SETTINGS, type Setting } from './model.ts';
import { getApprovalRule, listApprovalRules } from './queries.ts';
import {
  approvalRuleRecord,
  approvalSettingsRecord,
  projectApprovalsRecord,
  toApprovalRule,
  toApprovalRules,
  toApprovalSettings,
  toProjectApprovals,
} from './record.ts';
import { getApprovalSettings } from './settings.ts';
import { WRITABLE_TYPES } from './writing.ts';

const tag = 'Approvals';
const id = idOrPath();
const one = { id, approval_rule_id: integer() };

const ids = () => commaList(integer(), { max: 1_000 }).nullish();
const approvals_required = integer().describe('0 to 100.');

/** The parameters of rules of groups, projects and merge requests. */
const ruleInput = {
  rule_type: oneOf(WRITABLE_TYPES).optional().describe('Follows from the approvers if it is left out.'),
  user_ids: ids(),
  usernames: commaList(text({ max: 255 }), { max: 1_000 })
    .nullish()
    .describe('Added to `user_ids`.'),
  group_ids: ids(),
};
export const newRuleInput = { ...ruleInput, name: text(), approvals_required };
export const ruleChangeInput = {
  ...ruleInput,
  name: text().optional(),
  approvals_required: approvals_required.optional(),
  remove_hidden_groups: boolean().optional().describe('Removes groups that you cannot see. Otherwise they stay.'),
};
const branchInput = {
  protected_branch_ids: ids().describe('Without any, the rule applies to all target branches.'),
  applies_to_all_protected_branches: boolean().optional().describe('If true, `protected_branch_ids` is ignored.'),
};

interface Lists {
  readonly user_ids?: readonly number[] | null | undefined;
  readonly usernames?: readonly string[] | null | undefined;
  readonly group_ids?: readonly number[] | null | undefined;
  readonly protected_branch_ids?: readonly number[] | null | undefined;
}

/** Clients send null for lists that they leave out. */
export const withoutNulls = <T extends Lists>(input: T) => ({
  ...input,
  user_ids: input.user_ids ?? undefined,
  usernames: input.usernames ?? undefined,
  group_ids: input.group_ids ?? undefined,
  protected_branch_ids: input.protected_branch_ids ?? undefined,
});

const groupRules: readonly Route[] = [
  listRoute({
    path: '/groups/:id/approval_rules',
    tag,
    summary: 'List the approval rules of a group',
    description: 'They govern the protected branches of all projects below the group.',
    input: { id },
    item: approvalRuleRecord,
    paging: 'offset',
    run: async (ctx, { id: at }, wanted) => {
      const page = await readPage(listApprovalRules(ctx, await getContainer(ctx, 'group', at)), wanted);
      return { ...page, items: await toApprovalRules(ctx, null, page.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/approval_rules',
    tag,
    summary: 'Create an approval rule of a group',
    input: { id, ...newRuleInput },
    response: approvalRuleRecord,
    run: async (ctx, { id: at, ...input }) => {
      const group = await getContainer(ctx, 'group', at);
      return toApprovalRule(ctx, null, await createApprovalRule(ctx, group, withoutNulls(input)));
    },
  }),
  route({
    method: 'PUT',
    path: '/groups/:id/approval_rules/:approval_rule_id',
    tag,
    summary: 'Change an approval rule of a group',
    input: { ...one, ...ruleChangeInput },
    response: approvalRuleRecord,
    run: async (ctx, { id: at, approval_rule_id, ...input }) => {
      const group = await getContainer(ctx, 'group', at);
      return toApprovalRule(ctx, null, await updateApprovalRule(ctx, group, approval_rule_id, withoutNulls(input)));
    },
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/approval_rules/:approval_rule_id',
    tag,
    summary: 'Delete an approval rule of a group',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id: at, approval_rule_id }, http) =>
      deleteApprovalRule(ctx, await getContainer(ctx, 'group', at), approval_rule_id, unmodifiedSince(http)),
  }),
];

const projectRules: readonly Route[] = [
  listRoute({
    path: '/projects/:id/approval_rules',
    tag,
    summary: 'List the approval rules of a project',
    input: { id },
    item: approvalRuleRecord,
    paging: 'offset',
    run: async (ctx, { id: at }, wanted) => {
      const project = await getProject(ctx, at);
      const page = await readPage(listApprovalRules(ctx, { kind: 'project', project }), wanted);
      return { ...page, items: await toApprovalRules(ctx, project, page.items) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/approval_rules/:approval_rule_id',
    tag,
    summary: 'Show an approval rule of a project',
    input: one,
    response: approvalRuleRecord,
    run: async (ctx, { id: at, approval_rule_id }) => {
      const project = await getProject(ctx, at);
      const rule = await getApprovalRule(ctx, { kind: 'project', project }, approval_rule_id);
      return toApprovalRule(ctx, project, rule);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/approval_rules',
    tag,
    summary: 'Create an approval rule of a project',
    input: { id, ...newRuleInput, ...branchInput, report_type: oneOf(REPORT_TYPES).optional() },
    response: approvalRuleRecord,
    run: async (ctx, { id: at, ...input }) => {
      const project = await getProject(ctx, at);
      const rule = await createApprovalRule(ctx, { kind: 'project', project }, withoutNulls(input));
      return toApprovalRule(ctx, project, rule);
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/approval_rules/:approval_rule_id',
    tag,
    summary: 'Change an approval rule of a project',
    input: { ...one, ...ruleChangeInput, ...branchInput },
    response: approvalRuleRecord,
    run: async (ctx, { id: at, approval_rule_id, ...input }) => {
      const project = await getProject(ctx, at);
      const rule = await updateApprovalRule(ctx, { kind: 'project', project }, approval_rule_id, withoutNulls(input));
      return toApprovalRule(ctx, project, rule);
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/approval_rules/:approval_rule_id',
    tag,
    summary: 'Delete an approval rule of a project',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id: at, approval_rule_id }, http) =>
      deleteApprovalRule(ctx, await getContainer(ctx, 'project', at), approval_rule_id, unmodifiedSince(http)),
  }),
];

const require_password_to_approve = removedInV5(
  boolean().optional().describe('`require_reauthentication_to_approve` wins if both are given.'),
  REAUTHENTICATION,
);
const setting = (name: Setting) => boolean().optional().describe(SETTINGS[name]);
const settingInput = {
  allow_author_approval: setting('allow_author_approval'),
  allow_committer_approval: setting('allow_committer_approval'),
  allow_overrides_to_approver_list_per_merge_request: setting('allow_overrides_to_approver_list_per_merge_request'),
  retain_approvals_on_push: setting('retain_approvals_on_push'),
  selective_code_owner_removals: setting('selective_code_owner_removals'),
  require_password_to_approve,
  require_reauthentication_to_approve: setting('require_reauthentication_to_approve'),
};
const changesSomething = atLeastOneOf(
  'allow_author_approval',
  'allow_committer_approval',
  'allow_overrides_to_approver_list_per_merge_request',
  'retain_approvals_on_push',
  'selective_code_owner_removals',
  'require_password_to_approve',
  'require_reauthentication_to_approve',
);

const settingRoutes = (kind: 'group' | 'project'): readonly Route[] => {
  const path =
    kind === 'group'
      ? ('/groups/:id/merge_request_approval_setting' as const)
      : ('/projects/:id/merge_request_approval_setting' as const);
  return [
    route({
      method: 'GET',
      path,
      tag,
      summary: `Show the approval settings of a ${kind}`,
      description: 'A group above may have restricted a setting: it is then `locked`.',
      input: { id },
      response: approvalSettingsRecord,
      run: async (ctx, { id: at }) =>
        toApprovalSettings(await getApprovalSettings(ctx, await getContainer(ctx, kind, at))),
    }),
    route({
      method: 'PUT',
      path,
      tag,
      summary: `Change the approval settings of a ${kind}`,
      input: { id, ...settingInput },
      rules: [changesSomething],
      response: approvalSettingsRecord,
      run: async (ctx, { id: at, require_password_to_approve, ...input }) =>
        toApprovalSettings(
          await updateApprovalSettings(ctx, await getContainer(ctx, kind, at), {
            ...input,
            require_reauthentication_to_approve:
              input.require_reauthentication_to_approve ?? require_password_to_approve,
          }),
        ),
    }),
  ];
};

/** The attributes of the project for each setting. Some say the opposite. */
const PROJECT_NAMES: Readonly<Record<Setting, string>> = {
  allow_author_approval: 'merge_requests_author_approval',
  allow_committer_approval: 'merge_requests_disable_committers_approval',
  allow_overrides_to_approver_list_per_merge_request: 'disable_overriding_approvers_per_merge_request',
  retain_approvals_on_push: 'reset_approvals_on_push',
  selective_code_owner_removals: 'selective_code_owner_removals',
  require_reauthentication_to_approve: 'require_reauthentication_to_approve',
};
const opposite = (value: boolean | undefined): boolean | undefined => (value === undefined ? undefined : !value);

const configuration: readonly Route[] = [
  route({
    method: 'GET',
    path: '/projects/:id/approvals',
    tag,
    summary: 'Show how merge requests of a project are approved',
    input: { id },
    response: projectApprovalsRecord,
    run: async (ctx, { id: at }) => {
      const project = await getProject(ctx, at);
      return toProjectApprovals(project, await getApprovalSettings(ctx, { kind: 'project', project }));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/approvals',
    tag,
    summary: 'Configure how merge requests of a project are approved',
    input: {
      id,
      approvals_before_merge: removedInV5(integer({ min: 0, max: 100 }).optional(), APPROVAL_RULES),
      reset_approvals_on_push: boolean().optional(),
      selective_code_owner_removals: boolean()
        .optional()
        .describe('Needs `reset_approvals_on_push` to be false. Turning that on turns this off.'),
      disable_overriding_approvers_per_merge_request: boolean().optional(),
      merge_requests_author_approval: boolean().optional(),
      merge_requests_disable_committers_approval: boolean().optional(),
      require_password_to_approve,
      require_reauthentication_to_approve: boolean().optional(),
    },
    response: projectApprovalsRecord,
    run: async (ctx, { id: at, ...input }) => {
      const { project, settings } = await configureProjectApprovals(
        ctx,
        await getProject(ctx, at),
        {
          approvals_before_merge: input.approvals_before_merge,
          allow_author_approval: input.merge_requests_author_approval,
          allow_committer_approval: opposite(input.merge_requests_disable_committers_approval),
          allow_overrides_to_approver_list_per_merge_request: opposite(
            input.disable_overriding_approvers_per_merge_request,
          ),
          retain_approvals_on_push: opposite(input.reset_approvals_on_push),
          selective_code_owner_removals: input.selective_code_owner_removals,
          require_reauthentication_to_approve:
            input.require_reauthentication_to_approve ?? input.require_password_to_approve,
        },
        (name) => PROJECT_NAMES[name],
      );
      return toProjectApprovals(project, settings);
    },
  }),
];

export const routes: readonly Route[] = [
  ...configuration,
  ...settingRoutes('group'),
  ...settingRoutes('project'),
  ...groupRules,
  ...projectRules,
];
