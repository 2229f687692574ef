import { z } from 'zod';
import { hookLabelSchema } from '#domains/labels/webhook.ts';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';
import { issueBody } from './webhook.ts';

const number = z.number().nullable();
const text = z.string().nullable();

/** The issue at the time of the event. Hook bodies stay correct after the issue has changed or is deleted. */
export const issueSnapshot = z.object({
  id: z.number(),
  iid: z.number(),
  project_id: z.number(),
  title: z.string(),
  description: text,
  state: z.string(),
  author_id: number,
  milestone_id: number,
  confidential: z.boolean(),
  discussion_locked: z.boolean().nullable(),
  issue_type: z.string(),
  due_date: text,
  weight: number,
  relative_position: number,
  time_estimate: z.number(),
  total_time_spent: z.number(),
  severity: z.string(),
  health_status: text,
  closed_at: text,
  updated_by_id: number,
  last_edited_at: text,
  last_edited_by_id: number,
  created_at: z.string(),
  updated_at: z.string(),
  assignee_ids: z.array(z.number()),
  labels: z.array(hookLabelSchema),
});
export type IssueSnapshot = z.output<typeof issueSnapshot>;

const payload = z.object({ issue: issueSnapshot, changes: changesSchema });
export type IssuePayload = z.output<typeof payload>;

const trigger = ({ issue }: IssuePayload) => (issue.confidential ? 'confidential_issues_events' : 'issues_events');

/** Readers are checked against the issue's current confidentiality. The deletion event has no issue left to check. */
const part = ({ issue }: IssuePayload) => ({ ability: 'read_issue', subject: { type: 'Issue', id: issue.id } });

export const issueOpened = defineEvent('issue.opened', payload, { trigger, body: issueBody('open'), part });
export const issueUpdated = defineEvent('issue.updated', payload, { trigger, body: issueBody('update'), part });
export const issueClosed = defineEvent('issue.closed', payload, { trigger, body: issueBody('close'), part });
export const issueReopened = defineEvent('issue.reopened', payload, { trigger, body: issueBody('reopen'), part });
export const issueDeleted = defineEvent('issue.deleted', payload, { part: { ability: 'read_issue' } });
