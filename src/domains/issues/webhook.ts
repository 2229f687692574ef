import { hookChanges } from '#domains/planning/changes.ts';
import { humanDuration, timeChange } from '#domains/planning/time-tracking.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProjectWith } from '#domains/projects/queries.ts';
import {
  HOOK_PARTS,
  type HookedProject,
  hookMarkdown,
  hookProject,
  hookRepository,
} from '#domains/projects/webhook.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import type { IssuePayload, IssueSnapshot } from './events.ts';
import { issueWebUrl } from './model.ts';

type Action = 'open' | 'update' | 'close' | 'reopen';

const STATE_IDS: Readonly<Record<string, number>> = { opened: 1, closed: 2 };

/** The body of issue events (reference: webhooks §3); null if the project has been deleted. */
export const issueBody =
  (action: Action) =>
  async (ctx: Context, event: EventRow, payload: IssuePayload): Promise<Record<string, unknown> | null> => {
    const project = await findProjectWith(ctx, { id: payload.issue.project_id }, HOOK_PARTS);
    return project && issueBodyIn(ctx, project, { ...payload, action, actor_id: event.actor_id });
  };

/** The same for a known project. */
export const issueBodyIn = async (
  ctx: Context,
  project: HookedProject,
  { issue, changes, action, actor_id }: IssuePayload & { readonly action: Action; readonly actor_id: number | null },
): Promise<Record<string, unknown>> => {
  const people = await userSummariesByIds(ctx, [...issue.assignee_ids, actor_id]);
  const user = people.get(actor_id ?? 0);
  const assignees = issue.assignee_ids.flatMap((id) => {
    const assignee = people.get(id);
    return assignee ? [hookUser(ctx, assignee)] : [];
  });
  return {
    object_kind: issue.issue_type === 'issue' ? 'issue' : 'work_item',
    event_type: issue.confidential ? 'confidential_issue' : 'issue',
    user: user ? hookUser(ctx, user) : null,
    project: hookProject(ctx, project),
    object_attributes: { ...hookIssue(ctx, project, issue), ...timeChange(changes), action },
    repository: hookRepository(ctx, project),
    ...(assignees.length > 0 ? { assignees, assignee: assignees[0] } : {}),
    labels: issue.labels,
    changes: hookChanges(changes, STATE_IDS),
  };
};

/** The attributes of an issue in webhook bodies: in its own events and in comments on it. */
export const hookIssue = (ctx: Context, project: Pick<ProjectRow, 'full_path'>, issue: IssueSnapshot) => ({
  author_id: issue.author_id,
  assignee_ids: issue.assignee_ids,
  assignee_id: issue.assignee_ids[0] ?? null,
  closed_at: isoTime(issue.closed_at),
  confidential: issue.confidential,
  created_at: isoTime(issue.created_at),
  description: hookMarkdown(ctx, issue.project_id, issue.description),
  discussion_locked: issue.discussion_locked,
  due_date: issue.due_date,
  duplicated_to_id: null,
  escalation_policy: null,
  escalation_status: null,
  health_status: issue.health_status,
  human_time_change: null,
  human_time_estimate: humanDuration(issue.time_estimate),
  human_total_time_spent: humanDuration(issue.total_time_spent),
  id: issue.id,
  iid: issue.iid,
  labels: issue.labels,
  last_edited_at: isoTime(issue.last_edited_at),
  last_edited_by_id: issue.last_edited_by_id,
  milestone_id: issue.milestone_id,
  moved_to_id: null,
  project_id: issue.project_id,
  relative_position: issue.relative_position,
  severity: issue.severity.toLowerCase(),
  state: issue.state,
  state_id: STATE_IDS[issue.state] ?? 1,
  time_change: 0,
  time_estimate: issue.time_estimate,
  title: issue.title,
  total_time_spent: issue.total_time_spent,
  type: TYPE_NAMES[issue.issue_type] ?? 'Issue',
  updated_at: isoTime(issue.updated_at),
  updated_by_id: issue.updated_by_id,
  url: issueWebUrl(ctx, project, issue),
  weight: issue.weight,
});

const TYPE_NAMES: Readonly<Record<string, string>> = {
  issue: 'Issue',
  incident: 'Incident',
  test_case: 'Test Case',
  requirement: 'Requirement',
  task: 'Task',
  objective: 'Objective',
  key_result: 'Key Result',
  epic: 'Epic',
  ticket: 'Ticket',
};
