import { z } from 'zod';
import { REPORTER } from '#domains/access/model.ts';
import { labelsByIssueIds } from '#domains/labels/queries.ts';
import { labelDetailRecord, toLabelDetails } from '#domains/labels/record.ts';
import { milestonesByIds } from '#domains/milestones/queries.ts';
import { milestoneRecord, toMilestone } from '#domains/milestones/record.ts';
import { subscribedAmong } from '#domains/planning/subscriptions.ts';
import { taskCompletion } from '#domains/planning/tasks.ts';
import { timeStats } from '#domains/planning/time-tracking.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { projectsByIds } from '#domains/projects/queries.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { apiUrl } from '#platform/urls.ts';
import { apiLink } from '#rest/v5.ts';
import { type IssueRow, issueReference, issueWebUrl } from './model.ts';
import { issueDetailsByIds } from './queries.ts';
import { closingMergeRequestCounts } from './references.ts';

const timeStatsRecord = z.object({
  time_estimate: z.int(),
  total_time_spent: z.int(),
  human_time_estimate: z.string().nullable(),
  human_total_time_spent: z.string().nullable(),
});

export const issueRecord = z
  .object({
    id: z.int(),
    iid: z.int(),
    project_id: z.int(),
    title: z.string(),
    description: z.string().nullable(),
    state: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    closed_at: z.string().nullable(),
    closed_by: userBasicRecord.nullable(),
    labels: z.union([z.array(z.string()), z.array(labelDetailRecord)]),
    milestone: milestoneRecord.nullable(),
    assignees: z.array(userBasicRecord),
    author: userBasicRecord.nullable(),
    type: z.string(),
    assignee: userBasicRecord.nullable(),
    user_notes_count: z.int(),
    merge_requests_count: z.int(),
    upvotes: z.int(),
    downvotes: z.int(),
    due_date: z.string().nullable(),
    confidential: z.boolean(),
    discussion_locked: z.boolean().nullable(),
    issue_type: z.string(),
    web_url: z.string(),
    time_stats: timeStatsRecord,
    task_completion_status: z.object({ count: z.int(), completed_count: z.int() }),
    weight: z.int().nullable(),
    has_tasks: z.boolean(),
    task_status: z.string().optional(),
    _links: z.object({
      self: apiLink(z.string()),
      notes: apiLink(z.string()),
      award_emoji: apiLink(z.string()),
      project: apiLink(z.string()),
      closed_as_duplicate_of: z.string().nullable(),
    }),
    references: z.object({ short: z.string(), relative: z.string(), full: z.string() }),
    severity: z.string(),
    subscribed: z.boolean(),
    moved_to_id: z.int().nullable(),
    imported: z.boolean(),
    imported_from: z.string(),
    service_desk_reply_to: z.string().nullable(),
  })
  .meta({ id: 'Issue' });
export type IssueRecord = z.output<typeof issueRecord>;

export interface IssueRecordOptions {
  /** The project of all issues. If absent, each project is looked up. */
  readonly project?: ProjectRow | undefined;
  readonly withLabelsDetails?: boolean | undefined;
}

/** Returns the records of issues that the caller can see, in a fixed number of statements. */
export const toIssues = async (
  ctx: Context,
  issues: readonly IssueRow[],
  { project, withLabelsDetails = false }: IssueRecordOptions = {},
): Promise<IssueRecord[]> => {
  if (issues.length === 0) return [];
  const ids = issues.map((issue) => issue.id);
  const [projects, details, labels, milestones] = await Promise.all([
    project
      ? new Map([[project.id, project]])
      : projectsByIds(ctx, unique(issues.map((issue) => issue.project_id)), ['id', 'full_path', 'access_level']),
    issueDetailsByIds(ctx, ids),
    labelsByIssueIds(ctx, ids),
    milestonesByIds(ctx, unique(issues.map((issue) => issue.milestone_id))),
  ]);
  const people = await userBasicsByIds(ctx, [
    ...issues.flatMap((issue) => [issue.author_id, issue.closed_by_id]),
    ...[...details.values()].flatMap((each) => each.assignee_ids),
  ]);
  const subscribed = await subscribedAmong(ctx, 'issue', ids);
  const closing = await closingMergeRequestCounts(ctx, ids);
  const labelDetails = withLabelsDetails ? await toLabelDetails(ctx, [...labels.values()].flat()) : null;
  const person = (id: number | null) => people.get(id) ?? null;
  return issues.flatMap((issue) => {
    const home = projects.get(issue.project_id);
    const more = details.get(issue.id);
    // The project or the issue has been deleted.
    if (!home || !more) return [];
    const self = apiUrl(ctx, `projects/${issue.project_id}`);
    const url = `${self}/issues/${issue.iid}`;
    const assignees = more.assignee_ids.flatMap((id) => person(id) ?? []);
    const tasks = taskCompletion(issue.description);
    const milestone = milestones.get(issue.milestone_id ?? 0);
    const own = labels.get(issue.id) ?? [];
    return {
      id: issue.id,
      iid: issue.iid,
      project_id: issue.project_id,
      title: issue.title,
      description: issue.description,
      state: issue.state,
      created_at: isoTime(issue.created_at),
      updated_at: isoTime(issue.updated_at),
      closed_at: isoTime(issue.closed_at),
      closed_by: person(issue.closed_by_id),
      labels: labelDetails ? own.flatMap((label) => labelDetails.get(label.id) ?? []) : own.map((label) => label.title),
      milestone: milestone ? toMilestone(ctx, milestone) : null,
      assignees,
      author: person(issue.author_id),
      type: issue.issue_type.toUpperCase(),
      assignee: assignees[0] ?? null,
      user_notes_count: more.open_notes_count + (home.access_level >= REPORTER ? more.internal_notes_count : 0),
      merge_requests_count: closing.get(issue.id) ?? 0,
      upvotes: more.upvotes,
      downvotes: more.downvotes,
      due_date: issue.due_date,
      confidential: issue.confidential,
      discussion_locked: issue.discussion_locked,
      issue_type: issue.issue_type,
      web_url: issueWebUrl(ctx, home, issue),
      time_stats: timeStats(issue.time_estimate, more.total_time_spent),
      task_completion_status: tasks,
      weight: issue.weight,
      has_tasks: tasks.count > 0,
      ...(tasks.count > 0
        ? { task_status: `${tasks.completed_count} of ${tasks.count} checklist items completed` }
        : {}),
      _links: {
        self: url,
        notes: `${url}/notes`,
        award_emoji: `${url}/award_emoji`,
        project: self,
        closed_as_duplicate_of: null,
      },
      references: {
        short: issueReference(issue),
        relative: issueReference(issue, project ? undefined : home),
        full: issueReference(issue, home),
      },
      severity: issue.severity,
      subscribed: subscribed.has(issue.id),
      moved_to_id: null,
      imported: issue.imported,
      imported_from: issue.imported ? 'gitlab_project' : 'none',
      service_desk_reply_to: null,
    };
  });
};

/** Returns one record. @throws DomainError `not_found` if the issue has been deleted */
export const toIssue = async (ctx: Context, issue: IssueRow, options: IssueRecordOptions): Promise<IssueRecord> => {
  const [record] = await toIssues(ctx, [issue], options);
  if (!record) throw notFound('Issue');
  return record;
};

const unique = (ids: readonly (number | null)[]): number[] => [...new Set(ids.flatMap((id) => id ?? []))];
