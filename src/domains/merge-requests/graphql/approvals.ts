import { approvalRuleCreated, approvalRuleDeleted, approvalRuleUpdated } from '#domains/approvals/events.ts';
import { ApprovalRuleType, ReportType } from '#domains/approvals/graphql.ts';
import { type ApprovalState, approvalStates, type RuleState } from '#domains/approvals/state.ts';
import { loadProject } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { loadUser, UserConnection, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { approveMergeRequest, mayApprove, reviewMergeRequest, unapproveMergeRequest } from '../approving.ts';
import { mergeRequestApproved, mergeRequestReviewed, mergeRequestUnapproved } from '../events.ts';
import { MergeRequestPermissions, MergeRequestRef } from '../graphql.ts';
import { getMergeRequest, type MergeRequestRow } from '../queries.ts';
import { findNamed, type Named, named } from './named.ts';
import { followMergeRequest } from './subscriptions.ts';

const loadState: (ctx: Context, id: number) => Promise<ApprovalState | null> = loader(approvalStates);

const people = async (ctx: Context, ids: readonly number[]) =>
  (await Promise.all(ids.map((id) => loadUser(ctx, id)))).filter((user) => user !== null);

/** A rule as it stands for one merge request. */
const ApprovalRuleRef = builder.objectRef<RuleState>('ApprovalRule').implement({
  description: 'Who has to approve a merge request, and whether they have.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ rule }) => gid('ApprovalMergeRequestRule', rule.id) }),
    name: t.string({ resolve: ({ rule }) => rule.name }),
    type: t.field({ type: ApprovalRuleType, resolve: ({ rule }) => rule.rule_type }),
    reportType: t.field({ type: ReportType, resolve: ({ rule }) => rule.report_type }),
    section: t.exposeString('section', { description: 'The section of CODEOWNERS.' }),
    approvalsRequired: t.int({ resolve: ({ rule }) => rule.approvals_required }),
    approved: t.exposeBoolean('approved'),
    invalid: t.boolean({
      description: 'Nobody could meet it, so it counts as approved.',
      resolve: (r) => r.is_invalid,
    }),
    overridden: t.exposeBoolean('overridden', { description: 'It differs from the rule of the project.' }),
    approvedBy: t.connection(
      {
        type: UserRef,
        extensions: { usualSize: 5 },
        resolve: ({ approver_ids }, args, ctx, info) =>
          connection(args, info, async (page) => pageOfAll(page, await people(ctx, approver_ids), ({ id }) => [id])),
      },
      UserConnection,
    ),
    eligibleApprovers: t.field({
      type: [UserRef],
      resolve: ({ eligible_ids }, _args, ctx) => people(ctx, eligible_ids),
    }),
  }),
});

const ApprovalStateRef = builder.objectRef<ApprovalState>('MergeRequestApprovalState').implement({
  fields: (t) => ({
    approvalRulesOverwritten: t.exposeBoolean('overwritten', {
      description: 'The merge request has rules of its own instead of those of the project.',
    }),
    rules: t.field({ type: [ApprovalRuleRef], resolve: ({ rules }) => rules }),
    invalidApproversRules: t.field({
      type: [ApprovalRuleRef],
      nullable: false,
      resolve: ({ rules }) => rules.filter(({ is_invalid }) => is_invalid),
    }),
  }),
});

/** Anonymous callers see whether it is approved, but not by which rules. */
const withRules = async (ctx: Context, row: MergeRequestRow): Promise<ApprovalState | null> => {
  const project = await loadProject(ctx, row.project_id);
  return project && can(ctx, project, 'read_approval_rule') ? loadState(ctx, row.id) : null;
};

builder.objectFields(MergeRequestRef, (t) => ({
  approved: t.boolean({
    nullable: false,
    description: 'All rules are met.',
    resolve: async ({ id }, _args, ctx) => (await loadState(ctx, id))?.approved ?? false,
  }),
  approvalsRequired: t.int({
    resolve: async ({ id }, _args, ctx) => (await loadState(ctx, id))?.approvals_required ?? null,
  }),
  approvalsLeft: t.int({ resolve: async ({ id }, _args, ctx) => (await loadState(ctx, id))?.approvals_left ?? null }),
  approvalState: t.field({ type: ApprovalStateRef, resolve: (row, _args, ctx) => withRules(ctx, row) }),
}));

builder.objectField(MergeRequestPermissions, 'canApprove', (t) =>
  t.boolean({
    nullable: false,
    description: 'Stays true after the caller has approved, unlike `user_can_approve` of REST.',
    resolve: async ({ project, row }, _args, ctx) => {
      const state = await loadState(ctx, row.id);
      return row.state === 'opened' && state !== null && mayApprove(ctx, project, state);
    },
  }),
);

/** Finds the merge request, changes it, and returns it as it is then. Repeating a change is not an error. */
const change = async (
  ctx: Context,
  input: Named,
  run: (project: ProjectRow, row: MergeRequestRow) => Promise<unknown>,
): Promise<{ readonly mergeRequest: MergeRequestRow }> => {
  const { project, row } = await findNamed(ctx, input);
  await run(project, row);
  return { mergeRequest: await getMergeRequest(ctx, project, row.iid) };
};

mutationField('mergeRequestApprove', {
  description: 'Approves a merge request.',
  input: (t) => ({
    ...named(t),
    sha: t.string({ description: 'The head that the caller has reviewed.' }),
    approvalPassword: t.string({ description: 'The password of the caller, where settings require it.' }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) =>
    change(ctx, input, (project, row) =>
      approveMergeRequest(ctx, project, row, {
        sha: input.sha ?? undefined,
        approval_password: input.approvalPassword ?? undefined,
      }),
    ),
});

mutationField('mergeRequestUnapprove', {
  description: 'Takes an approval back.',
  input: named,
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) => change(ctx, input, (project, row) => unapproveMergeRequest(ctx, project, row)),
});

mutationField('mergeRequestRequestChanges', {
  description: 'As a reviewer, asks for changes. The merge request cannot be merged until they approve it.',
  input: named,
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) => change(ctx, input, (project, row) => reviewMergeRequest(ctx, project, row, 'requested_changes')),
});

mutationField('mergeRequestDestroyRequestedChanges', {
  description: 'As a reviewer, no longer asks for changes.',
  input: named,
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) => change(ctx, input, (project, row) => reviewMergeRequest(ctx, project, row, 'reviewed')),
});

followMergeRequest('mergeRequestApprovalStateUpdated', {
  description: 'Follows the approvals and the rules of a merge request, and reviewers who ask for changes.',
  kinds: [
    mergeRequestApproved,
    mergeRequestUnapproved,
    mergeRequestReviewed,
    approvalRuleCreated,
    approvalRuleUpdated,
    approvalRuleDeleted,
  ],
});
