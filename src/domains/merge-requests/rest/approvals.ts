import { z } from 'zod';
import { isUserDefined } from '#domains/approvals/model.ts';
import { mergeRequestRuleRecord, toMergeRequestRules } from '#domains/approvals/record.ts';
import type { ApprovalState } from '#domains/approvals/state.ts';
import { APPROVAL_RULES } from '#domains/projects/attributes.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { RestError } from '#rest/errors.ts';
import { boolean, integer, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { removedInV5 } from '#rest/v5.ts';
import {
  approveMergeRequest,
  getApprovalState,
  mayApprove,
  resetApprovals,
  unapproveMergeRequest,
} from '../approving.ts';
import { setApprovalsRequired } from '../commands.ts';
import { shownMergeStatus } from '../model.ts';
import { getMergeRequest, type MergeRequestRow } from '../queries.ts';
import { findMergeRequest, one } from './one.ts';

const tag = 'Merge request approvals';
const at = '/projects/:id/merge_requests/:merge_request_iid';

const nameOfRule = { id: z.int(), name: z.string(), rule_type: z.string() };

/** How a merge request is approved (reference: merge-requests §5). */
const approvalsRecord = z
  .object({
    id: z.int(),
    iid: z.int(),
    project_id: z.int(),
    title: z.string(),
    description: z.string().nullable(),
    state: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    merge_status: removedInV5(z.string(), { replacedBy: 'GET /projects/:id/merge_requests/:merge_request_iid' }),
    approved: z.boolean(),
    approvals_required: z.int(),
    approvals_left: z.int(),
    require_password_to_approve: removedInV5(z.boolean(), { replacedBy: 'require_reauthentication_to_approve' }),
    approved_by: z.array(z.object({ user: userBasicRecord, approved_at: z.string() })),
    suggested_approvers: z.array(userBasicRecord),
    approvers: removedInV5(z.array(z.unknown()), APPROVAL_RULES),
    approver_groups: removedInV5(z.array(z.unknown()), APPROVAL_RULES),
    user_has_approved: z.boolean(),
    user_can_approve: z.boolean(),
    approval_rules_left: z.array(z.object(nameOfRule)),
    has_approval_rules: z.boolean(),
    merge_request_approvers_available: z.boolean(),
    multiple_approval_rules_available: z.boolean(),
    invalid_approvers_rules: z.array(z.object(nameOfRule)),
  })
  .meta({ id: 'MergeRequestApprovals' });

const approvalStateRecord = z
  .object({
    approval_rules_overwritten: z.boolean(),
    rules: z.array(
      mergeRequestRuleRecord
        .extend({ approved: z.boolean(), approved_by: z.array(userBasicRecord) })
        .meta({ id: 'MergeRequestApprovalRuleState' }),
    ),
  })
  .meta({ id: 'MergeRequestApprovalState' });

/** Existing clients expect an answer without a body if a request changes nothing. */
const notModified = () => new RestError(304, '');

export const approvalRoutes = [
  route({
    method: 'GET',
    path: `${at}/approvals`,
    tag,
    summary: 'Get the approvals of a merge request',
    input: one,
    response: approvalsRecord,
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      return toApprovals(ctx, project, row);
    },
  }),
  route({
    method: 'GET',
    path: `${at}/approval_state`,
    tag,
    summary: 'Get the approval rules of a merge request, and whether they are met',
    input: one,
    response: approvalStateRecord,
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      return toApprovalState(ctx, project, row);
    },
  }),
  route({
    method: 'POST',
    path: `${at}/approvals`,
    tag,
    summary: 'Set how many approvals a merge request needs',
    description: 'For Maintainers of the project.',
    removedInV5: { ...APPROVAL_RULES, successor: '/projects/:id/merge_requests/:merge_request_iid/approval_rules' },
    input: { ...one, approvals_required: integer({ min: 0, max: 100 }) },
    response: approvalsRecord,
    run: async (ctx, { id, merge_request_iid, approvals_required }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      return toApprovals(ctx, project, await setApprovalsRequired(ctx, project, row, approvals_required));
    },
  }),
  route({
    method: 'POST',
    path: `${at}/approve`,
    tag,
    summary: 'Approve a merge request',
    description:
      '`304` if the caller has approved it already. `401` for an author or committer whom the project keeps out, and for a missing or wrong password where one is required. `403` without the right to approve. `409` if `sha` is not the head of the source branch. With `publish_review` the draft notes of the caller are published too.',
    input: {
      ...one,
      sha: text({ max: 64 }).optional(),
      approval_password: text({ max: 1_000 }).optional(),
      publish_review: boolean().optional(),
    },
    response: approvalsRecord,
    run: async (ctx, { id, merge_request_iid, ...input }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      if (!(await approveMergeRequest(ctx, project, row, input))) throw notModified();
      return toApprovals(ctx, project, row);
    },
  }),
  route({
    method: 'POST',
    path: `${at}/unapprove`,
    tag,
    summary: 'Take an approval back',
    description: '`304` if the caller has not approved the merge request.',
    input: one,
    response: approvalsRecord,
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      if (!(await unapproveMergeRequest(ctx, project, row))) throw notModified();
      return toApprovals(ctx, project, row);
    },
  }),
  route({
    method: 'PUT',
    path: `${at}/reset_approvals`,
    tag,
    summary: 'Remove all approvals of a merge request',
    description: 'Only for bots of projects and groups, such as service accounts. Others get `401`.',
    status: 202,
    input: one,
    response: null,
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      await resetApprovals(ctx, project, row);
    },
  }),
] satisfies readonly Route[];

const toApprovals = async (
  ctx: Context,
  project: ProjectRow,
  { iid }: Pick<MergeRequestRow, 'iid'>,
): Promise<z.output<typeof approvalsRecord>> => {
  const row = await getMergeRequest(ctx, project, iid);
  const state = await getApprovalState(ctx, project, row);
  const { userId } = ctx.actor;
  const approverIds = state.approvals.map(({ user_id }) => user_id);
  const suggestedIds = suggested(state, approverIds);
  const users = await userBasicsByIds(ctx, [...approverIds, ...suggestedIds]);
  const hasApproved = userId !== null && approverIds.includes(userId);
  return {
    id: row.id,
    iid: row.iid,
    project_id: row.project_id,
    title: row.title,
    description: row.description,
    state: row.state,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
    merge_status: shownMergeStatus(row),
    approved: state.approved,
    approvals_required: state.approvals_required,
    approvals_left: state.approvals_left,
    require_password_to_approve: state.settings.require_reauthentication_to_approve,
    approved_by: state.approvals.flatMap(({ user_id, created_at }) => {
      const user = users.get(user_id);
      return user ? [{ user, approved_at: isoTime(created_at) }] : [];
    }),
    suggested_approvers: suggestedIds.flatMap((id) => users.get(id) ?? []),
    // Former names of what rules say today.
    approvers: [],
    approver_groups: [],
    user_has_approved: hasApproved,
    user_can_approve: !hasApproved && row.state === 'opened' && mayApprove(ctx, project, state),
    approval_rules_left: left(state).map(({ rule: { id, name, rule_type } }) => ({ id, name, rule_type })),
    has_approval_rules: state.rules.some(({ rule }) => isUserDefined(rule)),
    merge_request_approvers_available: true,
    multiple_approval_rules_available: true,
    invalid_approvers_rules: state.rules
      .filter(({ is_invalid }) => is_invalid)
      .map(({ rule: { id, name, rule_type } }) => ({ id, name, rule_type })),
  };
};

const toApprovalState = async (
  ctx: Context,
  project: ProjectRow,
  row: Pick<MergeRequestRow, 'id'>,
): Promise<z.output<typeof approvalStateRecord>> => {
  const state = await getApprovalState(ctx, project, row);
  const [records, users] = await Promise.all([
    toMergeRequestRules(
      ctx,
      project,
      state.rules.map(({ rule }) => rule),
    ),
    userBasicsByIds(
      ctx,
      state.rules.flatMap(({ eligible_ids, approver_ids }) => [...eligible_ids, ...approver_ids]),
    ),
  ]);
  const people = (ids: readonly number[]) => ids.flatMap((each) => users.get(each) ?? []);
  const byId = new Map(records.map((record) => [record.id, record]));
  return {
    approval_rules_overwritten: state.overwritten,
    rules: state.rules.flatMap(({ rule, section, eligible_ids, approver_ids, approved }) => {
      const record = byId.get(rule.id);
      // Without the people whom settings keep out of this merge request.
      const eligible_approvers = people(eligible_ids);
      return record ? [{ ...record, section, eligible_approvers, approved, approved_by: people(approver_ids) }] : [];
    }),
  };
};

const MAX_SUGGESTED = 100;

/** Returns who could approve by a rule that is not met. */
const suggested = (state: ApprovalState, approverIds: readonly number[]): readonly number[] => {
  const ids = new Set(left(state).flatMap(({ eligible_ids }) => eligible_ids));
  return [...ids].filter((id) => !approverIds.includes(id)).slice(0, MAX_SUGGESTED);
};

/** The rule for anyone is left out while the others need as many. */
const left = ({ rules }: ApprovalState) => {
  const open = rules.filter(({ approved }) => !approved);
  const named = open.filter(({ rule }) => rule.rule_type !== 'any_approver');
  const wanted = named.reduce((sum, each) => sum + each.approvals_left, 0);
  return open.filter((each) => each.rule.rule_type !== 'any_approver' || each.approvals_left > wanted);
};
