import { GUEST, PLANNER } from '#domains/access/model.ts';
import { labelsByIssueIds } from '#domains/labels/queries.ts';
import { hookLabel } from '#domains/labels/webhook.ts';
import type { Changes } from '#domains/planning/changes.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import type { Context, Tx } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { readersAmong } from './assignment.ts';
import type { IssueSnapshot, issueOpened } from './events.ts';
import type { IssueEffort, IssueRow } from './model.ts';
import { issueEffortsByIds } from './queries.ts';

// Issues as payload of events, and who may read the events.

/** Returns the issue as event payload. */
export const snapshotOf = async (tx: Pick<Context, 'db'>, issue: IssueRow): Promise<IssueSnapshot> => {
  const efforts = await issueEffortsByIds(tx, [issue.id]);
  return snapshot(issue, efforts.get(issue.id), await labelsByIssueIds(tx, [issue.id]));
};

/** The same for many issues, by id. */
export const snapshotsOf = async (
  tx: Pick<Context, 'db'>,
  issues: readonly IssueRow[],
): Promise<ReadonlyMap<number, IssueSnapshot>> => {
  const ids = issues.map(({ id }) => id);
  const efforts = await issueEffortsByIds(tx, ids);
  const labels = await labelsByIssueIds(tx, ids);
  return new Map(issues.map((issue) => [issue.id, snapshot(issue, efforts.get(issue.id), labels)]));
};

const snapshot = (
  issue: IssueRow,
  effort: IssueEffort | undefined,
  labelsById: Awaited<ReturnType<typeof labelsByIssueIds>>,
): IssueSnapshot => {
  const labels = labelsById.get(issue.id) ?? [];
  const { external_key: _key, imported: _imported, closed_by_id: _closer, ...columns } = issue;
  return {
    ...columns,
    created_at: isoTime(issue.created_at),
    updated_at: isoTime(issue.updated_at),
    closed_at: isoTime(issue.closed_at),
    last_edited_at: isoTime(issue.last_edited_at),
    total_time_spent: effort?.total_time_spent ?? 0,
    assignee_ids: [...(effort?.assignee_ids ?? [])],
    labels: labels.map(hookLabel),
  };
};

/**
 * Returns the audience of an issue's events: everyone who can see the issue. A confidential issue is limited to
 * Planners, and to the author and assignees who can read the project's issues.
 */
export const issueAudience = async (tx: Tx, project: ProjectRow, issue: IssueSnapshot) =>
  audienceOf(project, issue, issue.confidential ? await readersAmong(tx, project, concernedBy(issue)) : new Set());

/** The same, if it is known who of the people concerned can read the project's issues. */
export const audienceOf = (project: ProjectRow, issue: IssueSnapshot, readers: ReadonlySet<number>) => {
  const scope = projectScope(project);
  if (issue.confidential) {
    return { ...scope, min_access_level: PLANNER, user_ids: concernedBy(issue).filter((id) => readers.has(id)) };
  }
  return { ...scope, min_access_level: project.issues_access_level === 'enabled' ? null : GUEST, user_ids: [] };
};

/** The author and the assignees. */
export const concernedBy = ({ author_id, assignee_ids }: IssueSnapshot): number[] => [
  ...new Set([...assignee_ids, ...(author_id === null ? [] : [author_id])]),
];

/** Emits an event of the issue as it is in this transaction. */
export const emitIssue = async (
  tx: Tx,
  kind: typeof issueOpened,
  project: ProjectRow,
  issue: IssueRow,
  changes: Changes,
): Promise<void> => {
  const snapshot = await snapshotOf(tx, issue);
  tx.emit(kind, {
    ...(await issueAudience(tx, project, snapshot)),
    subject: { type: 'Issue', id: issue.id },
    payload: { issue: snapshot, changes },
  });
};
