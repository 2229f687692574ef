import type { Selectable } from 'kysely';
import type { Prose } from '#domains/markdown/model.ts';
import { type ProjectRow, projectWebUrl } from '#domains/projects/model.ts';
import { can, type JudgedProject } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import type { Issues } from '#platform/db/tables.ts';

export type IssueRow = Selectable<Issues>;

/** The assignees of an issue, and the time that they have spent, in seconds. */
export interface IssueEffort {
  readonly id: number;
  readonly assignee_ids: readonly number[];
  readonly total_time_spent: number;
}

/** The facts about an issue in other tables. */
export interface IssueDetails extends IssueEffort {
  /** Comments that everyone who can see the issue can read. */
  readonly open_notes_count: number;
  /** Internal comments. */
  readonly internal_notes_count: number;
  readonly upvotes: number;
  readonly downvotes: number;
}

/** The discussions of an issue, counted by their comments as in `IssueDetails`. */
export interface DiscussionCounts {
  readonly id: number;
  readonly open: number;
  readonly internal: number;
}

export const ISSUE_STATES = ['opened', 'closed'] as const;
export type IssueState = (typeof ISSUE_STATES)[number];

export const ISSUE_STATE_EVENTS = ['close', 'reopen'] as const;
export type IssueStateEvent = (typeof ISSUE_STATE_EVENTS)[number];

export const ISSUE_TYPES = [
  'issue',
  'incident',
  'test_case',
  'requirement',
  'task',
  'objective',
  'key_result',
  'epic',
  'ticket',
] as const;
export type IssueType = (typeof ISSUE_TYPES)[number];

export const ISSUE_ORDERS = ['created_at', 'updated_at', 'title', 'due_date', 'weight', 'relative_position'] as const;
export type IssueOrder = (typeof ISSUE_ORDERS)[number];

/** Returns `#12` within the project, `group/project#12` elsewhere. */
export const issueReference = (issue: Pick<IssueRow, 'iid'>, project?: Pick<ProjectRow, 'full_path'>): string =>
  `${project?.full_path ?? ''}#${issue.iid}`;

/** Returns the web URL of the issue. */
export const issueWebUrl = (
  ctx: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path'>,
  issue: Pick<IssueRow, 'iid'>,
): string => `${projectWebUrl(ctx, project)}/-/issues/${issue.iid}`;

/** Returns true if the caller may change the issue. Authors may, except for planning attributes (`admin_issue`). */
export const canUpdateIssue = (
  ctx: Pick<Context, 'actor'>,
  project: JudgedProject,
  issue: Pick<IssueRow, 'author_id'>,
): boolean =>
  can(ctx, project, 'admin_issue') ||
  (issue.author_id !== null && issue.author_id === ctx.actor.userId && can(ctx, project, 'create_issue'));

export const titleProse = ({ title, project_id }: Pick<IssueRow, 'title' | 'project_id'>): Prose => ({
  text: title,
  home: { kind: 'project', id: project_id },
  inline: true,
});

export const descriptionProse = ({ description, project_id }: Pick<IssueRow, 'description' | 'project_id'>): Prose => ({
  text: description,
  home: { kind: 'project', id: project_id },
});
