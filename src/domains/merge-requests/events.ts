import { z } from 'zod';
import { hookLabelSchema } from '#domains/labels/webhook.ts';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';
import { bodyOf } from './webhook.ts';

const number = z.number().nullable();
const text = z.string().nullable();

/** The merge request at the time of the event. Hook bodies stay correct after it has changed or is deleted. */
export const mergeRequestSnapshot = z.object({
  id: z.number(),
  iid: z.number(),
  /** The target project. */
  project_id: z.number(),
  project_path: z.string(),
  source_project_id: number,
  source_branch: z.string(),
  target_branch: z.string(),
  title: z.string(),
  description: text,
  state: z.string(),
  draft: z.boolean(),
  author_id: number,
  milestone_id: number,
  discussion_locked: z.boolean().nullable(),
  diff_head_sha: text,
  merge_status: z.string(),
  detailed_merge_status: z.string(),
  merge_error: text,
  merge_params: z.json(),
  merge_commit_sha: text,
  merge_user_id: number,
  merge_when_pipeline_succeeds: z.boolean(),
  blocking_discussions_resolved: z.boolean(),
  first_contribution: z.boolean(),
  head_pipeline_id: number,
  time_estimate: z.number(),
  total_time_spent: z.number(),
  prepared_at: text,
  created_at: z.string(),
  updated_at: z.string(),
  updated_by_id: number,
  last_edited_at: text,
  last_edited_by_id: number,
  assignee_ids: z.array(z.number()),
  reviewer_ids: z.array(z.number()),
  labels: z.array(hookLabelSchema),
});
export type MergeRequestSnapshot = z.output<typeof mergeRequestSnapshot>;

const payload = z.object({
  merge_request: mergeRequestSnapshot,
  changes: changesSchema,
  /** For new commits: the head before them. */
  oldrev: z.string().optional(),
  /**
   * The user who did it. An event that a job emits has no actor, although somebody opened the merge request or pushed.
   */
  by_id: z.number().nullable().optional(),
});
export type MergeRequestPayload = z.output<typeof payload>;

const trigger = () => 'merge_requests_events';
const part = { ability: 'read_merge_request' } as const;

/** The record exists. Its diff follows. */
export const mergeRequestOpened = defineEvent('merge_request.opened', payload, { part });
/** The first version of the diff is ready. Hooks are sent from now on. */
export const mergeRequestPrepared = defineEvent('merge_request.prepared', payload, {
  trigger,
  body: bodyOf('open'),
  part,
});
export const mergeRequestUpdated = defineEvent('merge_request.updated', payload, {
  trigger,
  body: bodyOf('update'),
  part,
});
/** The answer to whether it can be merged has changed. */
export const mergeRequestChecked = defineEvent('merge_request.checked', payload, { part });
export const mergeRequestClosed = defineEvent('merge_request.closed', payload, {
  trigger,
  body: bodyOf('close'),
  part,
});
export const mergeRequestReopened = defineEvent('merge_request.reopened', payload, {
  trigger,
  body: bodyOf('reopen'),
  part,
});
export const mergeRequestMerged = defineEvent('merge_request.merged', payload, {
  trigger,
  body: bodyOf('merge'),
  part,
});
const approvalPayload = payload.extend({
  /** The users who have approved, or whose approvals are gone. */
  user_ids: z.array(z.number()),
  /** Whether nothing is left to approve, or this ended the approved state. */
  is_decisive: z.boolean(),
  /** Set if a push removed the approvals. */
  system_action: z.enum(['approvals_reset_on_push', 'code_owner_approvals_reset_on_push']).optional(),
});
export type ApprovalPayload = z.output<typeof approvalPayload>;

export const mergeRequestApproved = defineEvent('merge_request.approved', approvalPayload, {
  trigger,
  body: bodyOf(({ is_decisive }: ApprovalPayload) => (is_decisive ? 'approved' : 'approval')),
  part,
});
export const mergeRequestUnapproved = defineEvent('merge_request.unapproved', approvalPayload, {
  trigger,
  body: bodyOf(({ is_decisive }: ApprovalPayload) => (is_decisive ? 'unapproved' : 'unapproval')),
  part,
});
/** The state of a review has changed otherwise: a reviewer requests changes, or withdraws that request. */
export const mergeRequestReviewed = defineEvent('merge_request.reviewed', payload, { part });
export const mergeRequestDeleted = defineEvent('merge_request.deleted', payload, { part });
