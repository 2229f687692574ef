import { sql } from 'kysely';
import { GUEST, OWNER, PLANNER } from '#domains/access/model.ts';
import { type LabelChanges, setLabels, wantedLabels } from '#domains/labels/linking.ts';
import { labelsByIssueIds } from '#domains/labels/queries.ts';
import { hookLabel } from '#domains/labels/webhook.ts';
import { readMilestone } from '#domains/milestones/queries.ts';
import { type Changes, differences } from '#domains/planning/changes.ts';
import { milestoneHistory, recordHistory } from '#domains/planning/history.ts';
import { checkDescription, readTitle } from '#domains/planning/texts.ts';
import { nextIid, raiseIid } from '#domains/projects/commands.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict, forbidden, unauthenticated } from '#platform/errors.ts';
import { withoutPrevious } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import { checkAssignees, readersAmong } from './assignment.ts';
import { type IssueSnapshot, issueClosed, issueDeleted, issueOpened, issueReopened, issueUpdated } from './events.ts';
import { canUpdateIssue, type IssueDetails, type IssueRow, type IssueStateEvent, type IssueType } from './model.ts';
import { getIssue, issueDetailsByIds } from './queries.ts';

/** Planning attributes, for Planners and above. For other callers they are ignored, as v4 clients expect. */
interface Planning extends Pick<LabelChanges, 'labels' | 'label_ids'> {
  readonly assignee_ids?: readonly number[] | undefined;
  /** 0 and null remove the milestone. */
  readonly milestone_id?: number | null | undefined;
  readonly due_date?: string | null | undefined;
  readonly weight?: number | null | undefined;
}

export interface NewIssue extends Planning {
  readonly title: string;
  readonly description?: string | null | undefined;
  readonly confidential?: boolean | undefined;
  readonly issue_type?: IssueType | undefined;
  /** For owners only. */
  readonly created_at?: string | undefined;
  readonly iid?: number | undefined;
}

export interface IssueChanges extends Planning, LabelChanges {
  readonly title?: string | undefined;
  readonly description?: string | null | undefined;
  readonly state_event?: IssueStateEvent | undefined;
  readonly issue_type?: IssueType | undefined;
  readonly confidential?: boolean | undefined;
  readonly discussion_locked?: boolean | null | undefined;
}

/** Opens an issue. @throws DomainError `forbidden`, `unauthenticated`, `invalid`, `conflict` if the iid is taken */
export const createIssue = async (ctx: Context, project: ProjectRow, input: NewIssue): Promise<IssueRow> => {
  requireAbility(ctx, project, 'create_issue');
  if (ctx.actor.userId === null) throw unauthenticated();
  const title = readTitle(input.title);
  checkDescription(input.description);
  const planning: Planning = can(ctx, project, 'admin_issue') ? input : {};
  const own = project.access_level >= OWNER ? { iid: input.iid, created_at: input.created_at } : {};
  return ctx.transaction(async (tx) => {
    const assignees = await checkAssignees(tx, project, planning.assignee_ids ?? []);
    const milestone_id = (await readMilestone(tx, project, planning.milestone_id)) ?? null;
    const labels = await wantedLabels(tx, project, [], planning);
    if (own.iid !== undefined) await raiseIid(tx, project.id, 'issue', own.iid);
    const issue = await tx.db
      .insertInto('issues')
      .values({
        project_id: project.id,
        iid: own.iid ?? (await nextIid(tx, project.id, 'issue')),
        title,
        description: input.description ?? null,
        author_id: ctx.actor.userId,
        milestone_id,
        confidential: input.confidential ?? false,
        issue_type: input.issue_type ?? 'issue',
        due_date: planning.due_date ?? null,
        weight: planning.weight ?? null,
        ...(own.created_at === undefined ? {} : { created_at: own.created_at }),
      })
      .returningAll()
      .executeTakeFirstOrThrow()
      .catch(asDuplicate);
    await setAssignees(tx, issue.id, [], assignees);
    await setLabels(tx, { issue_id: issue.id }, [], labels);
    await recordHistory(tx, { issue_id: issue.id }, milestoneHistory(null, milestone_id));
    await countOpen(tx, null, issue);
    await emitIssue(tx, issueOpened, project, issue, {});
    return issue;
  });
};

/**
 * Changes, closes or reopens an issue. Authors may change the text, type and state; everything else requires a Planner.
 *
 * @throws DomainError `forbidden`, `invalid`
 */
export const updateIssue = async (
  ctx: Context,
  project: ProjectRow,
  given: IssueRow,
  input: IssueChanges,
): Promise<IssueRow> => {
  if (!canUpdateIssue(ctx, project, given)) throw forbidden();
  const { title, description, state_event, issue_type } = input;
  // Authors may change these attributes. If they send only others, fail instead of silently changing nothing.
  const planning: IssueChanges = can(ctx, project, 'admin_issue') ? input : {};
  const isMine = [title, description, state_event, issue_type].some((value) => value !== undefined);
  if (planning !== input && !isMine) throw forbidden();
  checkDescription(description);
  return ctx.transaction(async (tx) => {
    const before = await lockIssue(tx, project, given);
    const details = (await issueDetailsByIds(tx, [before.id])).get(before.id);
    const labelsBefore = (await labelsByIssueIds(tx, [before.id])).get(before.id) ?? [];
    const assigneesBefore = details?.assignee_ids ?? [];
    const changes = differences(
      { ...before },
      {
        title: title === undefined ? undefined : readTitle(title),
        description,
        issue_type,
        state: state_event && (state_event === 'close' ? 'closed' : 'opened'),
        milestone_id: await readMilestone(tx, project, planning.milestone_id),
        due_date: planning.due_date,
        weight: planning.weight,
        confidential: planning.confidential,
        discussion_locked: planning.discussion_locked,
      },
    );
    const values: Record<string, unknown> = Object.fromEntries(
      Object.entries(changes).map(([name, { current }]) => [name, current]),
    );
    const labels = await wantedLabels(tx, project, labelsBefore, planning);
    const assignees = planning.assignee_ids
      ? await checkAssignees(tx, project, planning.assignee_ids)
      : [...assigneesBefore];
    if (await setLabels(tx, { issue_id: before.id }, labelsBefore, labels)) {
      changes.labels = { previous: labelsBefore.map(hookLabel), current: labels.map(hookLabel) };
    }
    if (String(assignees) !== String(assigneesBefore)) {
      const people = await userSummariesByIds(tx, [...assignees, ...assigneesBefore]);
      const told = (userIds: readonly number[]) =>
        userIds.flatMap((id) => {
          const person = people.get(id);
          return person ? [hookUser(tx, person)] : [];
        });
      changes.assignees = { previous: told(assigneesBefore), current: told(assignees) };
      await setAssignees(tx, before.id, assigneesBefore, assignees);
    }
    if (Object.keys(changes).length === 0) return before;
    const isEdited = changes.title !== undefined || changes.description !== undefined;
    const after = await tx.db
      .updateTable('issues')
      .set({
        ...values,
        ...(changes.state
          ? changes.state.current === 'closed'
            ? { closed_at: sql`now()`, closed_by_id: tx.actor.userId }
            : { closed_at: null, closed_by_id: null }
          : {}),
        ...(isEdited ? { last_edited_at: sql`now()`, last_edited_by_id: tx.actor.userId } : {}),
        updated_at: sql`now()`,
        updated_by_id: tx.actor.userId,
      })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    const { closed_at, updated_at, updated_by_id, last_edited_at, last_edited_by_id } = after;
    Object.assign(
      changes,
      differences({ ...before }, { closed_at, updated_at, updated_by_id, last_edited_at, last_edited_by_id }),
    );
    await recordChanges(tx, before, after);
    await countOpen(tx, before, after);
    const kind = !changes.state ? issueUpdated : after.state === 'closed' ? issueClosed : issueReopened;
    const opens = before.confidential && !after.confidential;
    await emitIssue(tx, kind, project, after, opens ? withoutPrevious(changes, ['confidential']) : changes);
    return after;
  });
};

/** Deletes an issue with all its comments. For owners. @throws DomainError `forbidden` */
export const deleteIssue = async (ctx: Context, project: ProjectRow, given: IssueRow): Promise<void> => {
  requireAbility(ctx, project, 'remove_issue');
  await ctx.transaction(async (tx) => {
    const issue = await lockIssue(tx, project, given);
    // Before the deletion, while labels and assignees are still known.
    await emitIssue(tx, issueDeleted, project, issue, {});
    await tx.db.deleteFrom('issues').where('id', '=', issue.id).execute();
    await countOpen(tx, issue, null);
  });
};

/**
 * Recounts a project's open issues after a bulk write. Excludes confidential issues, because everyone can see the
 * number.
 */
export const recountOpenIssues = async (tx: Tx, projectId: number): Promise<void> => {
  await sql`update projects set open_issues_count = (
    select count(*) from issues i where i.project_id = projects.id and i.state = 'opened' and not i.confidential)
    where id = ${projectId}`.execute(tx.db);
};

/** Returns the issue as event payload. */
export const snapshotOf = async (tx: Pick<Context, 'db'>, issue: IssueRow): Promise<IssueSnapshot> => {
  const details = await issueDetailsByIds(tx, [issue.id]);
  return snapshot(issue, details.get(issue.id), await labelsByIssueIds(tx, [issue.id]));
};

/** The same for many issues, by id. */
export const snapshotsOf = async (
  tx: Pick<Context, 'db'>,
  issues: readonly IssueRow[],
): Promise<ReadonlyMap<number, IssueSnapshot>> => {
  const ids = issues.map(({ id }) => id);
  const details = await issueDetailsByIds(tx, ids);
  const labels = await labelsByIssueIds(tx, ids);
  return new Map(issues.map((issue) => [issue.id, snapshot(issue, details.get(issue.id), labels)]));
};

const snapshot = (
  issue: IssueRow,
  details: IssueDetails | undefined,
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
    total_time_spent: details?.total_time_spent ?? 0,
    assignee_ids: [...(details?.assignee_ids ?? [])],
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

const emitIssue = async (
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

/** Locks the issue until the transaction ends, and returns its current row. */
const lockIssue = async (tx: Tx, project: ProjectRow, { id, iid }: IssueRow): Promise<IssueRow> => {
  await tx.db.selectFrom('issues').select('id').where('id', '=', id).forUpdate().execute();
  return getIssue(tx, project, iid);
};

const countsAsOpen = (issue: IssueRow | null): number =>
  issue !== null && issue.state === 'opened' && !issue.confidential ? 1 : 0;

const countOpen = async (tx: Tx, before: IssueRow | null, after: IssueRow | null): Promise<void> => {
  const difference = countsAsOpen(after) - countsAsOpen(before);
  const projectId = (after ?? before)?.project_id;
  if (difference === 0 || projectId === undefined) return;
  await tx.db
    .updateTable('projects')
    .set({ open_issues_count: sql`greatest(open_issues_count + ${difference}, 0)` })
    .where('id', '=', projectId)
    .execute();
};

const setAssignees = async (
  tx: Tx,
  issue_id: number,
  before: readonly number[],
  after: readonly number[],
): Promise<void> => {
  const added = after.filter((id) => !before.includes(id));
  const removed = before.filter((id) => !after.includes(id));
  if (added.length > 0) {
    await tx.db
      .insertInto('issue_assignees')
      .values(added.map((user_id) => ({ issue_id, user_id })))
      .execute();
  }
  if (removed.length > 0) {
    await tx.db
      .deleteFrom('issue_assignees')
      .where('issue_id', '=', issue_id)
      .where('user_id', 'in', removed)
      .execute();
  }
};

const recordChanges = (tx: Tx, before: IssueRow, after: IssueRow): Promise<void> =>
  recordHistory(tx, { issue_id: after.id }, [
    ...(before.state === after.state
      ? []
      : [{ kind: 'state', state: after.state === 'closed' ? 'closed' : 'reopened' } as const]),
    ...milestoneHistory(before.milestone_id, after.milestone_id),
  ]);

const asDuplicate = (error: unknown): never => {
  if (brokenConstraint(error) === 'issues_project_id_iid_key') throw conflict('Duplicated issue');
  throw error;
};
