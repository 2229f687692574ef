import { GroupConnection, GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { loadUser, UserConnection, UserRef } from '#domains/users/graphql.ts';
import { builder, type InputFields, type Types } from '#graphql/builder.ts';
import { connection, listConnection, pageOfAll } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { listOfRows } from '#platform/db/list.ts';
import { eligibleByRules } from './eligible.ts';
import { type ApprovalRule, differsFrom, REPORT_TYPES, SETTINGS, type Setting } from './model.ts';
import { canReadApprovals } from './policy.ts';
import { rulesByIds, rulesByOwners } from './queries.ts';
import { type GovernedSetting, type GovernedSettings, settingsByIds } from './settings.ts';

export const ApprovalRuleType = builder.enumType('ApprovalRuleType', {
  values: {
    ANY_APPROVER: { value: 'any_approver', description: 'Anyone who may approve.' },
    REGULAR: { value: 'regular', description: 'The users and groups of the rule.' },
    CODE_OWNER: { value: 'code_owner', description: 'The code owners of changed files.' },
    REPORT_APPROVER: { value: 'report_approver', description: 'For reports of pipelines.' },
  } as const,
});
export const ReportType = builder.enumType('ApprovalReportType', { values: upperCase(REPORT_TYPES) });

const loadRule = loader(rulesByIds);
const loadEligible = loader(eligibleByRules);

const usersOf = async (ctx: Context, ids: readonly number[]) =>
  (await Promise.all(ids.map((id) => loadUser(ctx, id)))).filter((user) => user !== null);
const groupsOf = async (ctx: Context, { group_ids }: ApprovalRule) =>
  (await Promise.all(group_ids.map((id) => loadGroup(ctx, id)))).filter((group) => group !== null);

type RuleFields = PothosSchemaTypes.ObjectFieldBuilder<Types, ApprovalRule>;

const ruleFields = (t: RuleFields, model: string) => {
  const users = (of: (ctx: Context, rule: ApprovalRule) => Promise<readonly number[]>, description: string) =>
    t.connection(
      {
        type: UserRef,
        extensions: { usualSize: 10 },
        description,
        resolve: (rule, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, await usersOf(ctx, await of(ctx, rule)), ({ id }) => [id]),
          ),
      },
      UserConnection,
    );
  return {
    id: t.id({ nullable: false, resolve: ({ id }) => gid(model, id) }),
    name: t.exposeString('name', { nullable: false }),
    type: t.expose('rule_type', { type: ApprovalRuleType, nullable: false }),
    approvalsRequired: t.exposeInt('approvals_required', { nullable: false }),
    users: users(async (_ctx, { user_ids }) => user_ids, 'The users that the rule names.'),
    groups: t.connection(
      {
        type: GroupRef,
        extensions: { usualSize: 5 },
        description: 'The groups that the rule names and the caller can see.',
        resolve: (rule, args, ctx, info) =>
          connection(args, info, async (page) => pageOfAll(page, await groupsOf(ctx, rule), ({ id }) => [id])),
      },
      GroupConnection,
    ),
    containsHiddenGroups: t.boolean({
      nullable: false,
      resolve: async (rule, _args, ctx) => (await groupsOf(ctx, rule)).length < rule.group_ids.length,
    }),
    eligibleApprovers: users(
      async (ctx, { id }) => (await loadEligible(ctx, id)) ?? [],
      'The users who can approve by the rule as of now.',
    ),
  };
};

export const ProjectRule = builder.objectRef<ApprovalRule>('ApprovalProjectRule').implement({
  description: 'Who has to approve merge requests of a project.',
  fields: (t) => ({
    ...ruleFields(t, 'ApprovalProjectRule'),
    reportType: t.expose('report_type', { type: ReportType, nullable: true }),
    appliesToAllProtectedBranches: t.exposeBoolean('applies_to_all_protected_branches', { nullable: false }),
  }),
});
const ProjectRuleConnection = builder.connectionObject(
  { type: ProjectRule, name: 'ApprovalProjectRuleConnection' },
  { name: 'ApprovalProjectRuleEdge' },
);

export const GroupRule = builder.objectRef<ApprovalRule>('ApprovalGroupRule').implement({
  description: 'Who has to approve merge requests into protected branches of all projects below a group.',
  fields: (t) => ruleFields(t, 'ApprovalGroupRule'),
});
const GroupRuleConnection = builder.connectionObject(
  { type: GroupRule, name: 'ApprovalGroupRuleConnection' },
  { name: 'ApprovalGroupRuleEdge' },
);

export const MergeRequestRule = builder.objectRef<ApprovalRule>('ApprovalMergeRequestRule').implement({
  description: 'Who has to approve one merge request, instead of the rules of its project.',
  fields: (t) => ({
    ...ruleFields(t, 'ApprovalMergeRequestRule'),
    sourceRule: t.field({
      type: ProjectRule,
      nullable: true,
      description: 'The rule that it was copied from.',
      resolve: ({ source_rule_id: id }, _args, ctx) => (id === null ? null : loadRule(ctx, id)),
    }),
    overridden: t.boolean({
      nullable: false,
      description: 'Whether it differs from the rule that it was copied from.',
      resolve: async (rule, _args, ctx) => {
        const source = rule.source_rule_id === null ? null : await loadRule(ctx, rule.source_rule_id);
        return source !== null && differsFrom(rule, source);
      },
    }),
  }),
});
export const MergeRequestRuleConnection = builder.connectionObject(
  { type: MergeRequestRule, name: 'ApprovalMergeRequestRuleConnection' },
  { name: 'ApprovalMergeRequestRuleEdge' },
);

/** A loader of the rules of groups, projects or merge requests. The caller checks permissions. */
export const rulesLoader = (kind: 'namespace_id' | 'project_id' | 'merge_request_id') => {
  const load = loader((ctx: Context, ids: readonly number[]) => rulesByOwners(ctx, kind, ids));
  return async (ctx: Context, id: number) => listOfRows((await load(ctx, id)) ?? [], (rule) => rule.id);
};
const projectRules = rulesLoader('project_id');
const groupRules = rulesLoader('namespace_id');

projectField('approvalRules', JUDGED, (t) =>
  t.connection(
    {
      type: ProjectRule,
      nullable: true,
      description: 'Only for signed-in callers who can read merge requests.',
      resolve: async (project, args, ctx, info) =>
        canReadApprovals(ctx, project) ? listConnection(args, info, await projectRules(ctx, project.id)) : null,
    },
    ProjectRuleConnection,
  ),
);

builder.objectField(GroupRef, 'approvalRules', (t) =>
  t.connection(
    {
      type: GroupRule,
      nullable: true,
      description: 'Only for Maintainers and above.',
      resolve: async (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'read_approval_rule')
          ? listConnection(args, info, await groupRules(ctx, group.id))
          : null,
    },
    GroupRuleConnection,
  ),
);

const SettingRef = builder.objectRef<GovernedSetting>('ApprovalSetting').implement({
  fields: (t) => ({
    value: t.exposeBoolean('value', { nullable: false, description: 'What holds.' }),
    locked: t.exposeBoolean('locked', { nullable: false, description: 'Whether a group above restricts it.' }),
    inheritedFrom: t.exposeString('inherited_from', { nullable: true, description: '`group`, if it is locked.' }),
  }),
});

export const SettingsRef = builder.objectRef<GovernedSettings>('ApprovalSettings').implement({
  description: 'How merge requests are approved in a project, or in all projects below a group.',
  fields: (t) => {
    const setting = (name: Setting) =>
      t.expose(name, { type: SettingRef, nullable: false, description: SETTINGS[name] });
    return {
      allowAuthorApproval: setting('allow_author_approval'),
      allowCommitterApproval: setting('allow_committer_approval'),
      allowOverridesToApproverListPerMergeRequest: setting('allow_overrides_to_approver_list_per_merge_request'),
      retainApprovalsOnPush: setting('retain_approvals_on_push'),
      selectiveCodeOwnerRemovals: setting('selective_code_owner_removals'),
      requireReauthenticationToApprove: setting('require_reauthentication_to_approve'),
    };
  },
});

const loadSettings = { group: loader(settingsByIds('group')), project: loader(settingsByIds('project')) } as const;

projectField('approvalSettings', JUDGED, (t) =>
  t.field({
    type: SettingsRef,
    nullable: true,
    description: 'Only for signed-in callers who can read merge requests.',
    resolve: (project, _args, ctx) => (canReadApprovals(ctx, project) ? loadSettings.project(ctx, project.id) : null),
  }),
);

builder.objectField(GroupRef, 'approvalSettings', (t) =>
  t.field({
    type: SettingsRef,
    nullable: true,
    description: 'Only for owners.',
    resolve: (group, _args, ctx) =>
      canOnGroup(ctx, group, 'admin_approval_rule') ? loadSettings.group(ctx, group.id) : null,
  }),
);

interface PeopleInput {
  readonly userIds?: readonly number[] | null | undefined;
  readonly groupIds?: readonly number[] | null | undefined;
}

/** The users and groups of an input. */
export const peopleOf = ({ userIds, groupIds }: PeopleInput) => ({
  user_ids: userIds ?? undefined,
  group_ids: groupIds ?? undefined,
});

/** The inputs of a new rule of any kind. */
export const newRuleFields = (t: InputFields) => ({
  name: t.string({ required: true }),
  approvalsRequired: t.int({ required: true, description: '0 to 100.' }),
  userIds: t.field({ type: ['UserID'] }),
  groupIds: t.field({ type: ['GroupID'] }),
});

/** The inputs that change a rule of any kind. */
export const ruleChangeFields = (t: InputFields) => ({
  name: t.string(),
  approvalsRequired: t.int({ description: '0 to 100.' }),
  userIds: t.field({ type: ['UserID'] }),
  groupIds: t.field({ type: ['GroupID'] }),
  removeHiddenGroups: t.boolean({ description: 'Removes groups that the caller cannot see. Otherwise they stay.' }),
});

interface ChangeInput extends PeopleInput {
  readonly name?: string | null | undefined;
  readonly approvalsRequired?: number | null | undefined;
  readonly removeHiddenGroups?: boolean | null | undefined;
}

/** The changes of a rule of any kind. */
export const ruleChangesOf = (input: ChangeInput) => ({
  ...peopleOf(input),
  name: input.name ?? undefined,
  approvals_required: input.approvalsRequired ?? undefined,
  remove_hidden_groups: input.removeHiddenGroups ?? undefined,
});
