import { sql } from 'kysely';
import { OWNER } from '#domains/access/model.ts';
import { changeLabels, type LabelChanges, setLabels, wantedLabels } from '#domains/labels/linking.ts';
import { readMilestone } from '#domains/milestones/queries.ts';
import { changeStamps, differences, newValues } from '#domains/planning/changes.ts';
import { milestoneHistory, recordHistory, updateHistory } from '#domains/planning/history.ts';
import { checkPeople, type PeopleMode, peopleAfter, peopleChange } from '#domains/planning/people.ts';
import { type QuickChanges, readQuickActions } from '#domains/planning/quick-changes.ts';
import { setSubscription } from '#domains/planning/subscriptions.ts';
import { recordChangeNotes } from '#domains/planning/system-notes.ts';
import { checkDescription, readTitle } from '#domains/planning/texts.ts';
import { changeSpentTime, type SpentTime } from '#domains/planning/time-tracking.ts';
import { nextIid, reserveIid } from '#domains/projects/insert.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict, forbidden, invalid, requireUnchanged, unauthenticated } from '#platform/errors.ts';
import { withoutPrevious } from '#platform/events.ts';
import { checkAssignees } from './assignment.ts';
import { issueClosed, issueDeleted, issueOpened, issueReopened, issueUpdated } from './events.ts';
import { canUpdateIssue, type IssueRow, type IssueStateEvent, type IssueType } from './model.ts';
import { getIssue, issueEffortsByIds } from './queries.ts';
import { emitIssue } from './snapshot.ts';

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
  /** The effect of `assignee_ids`. */
  readonly people_mode?: PeopleMode;
  /** In seconds. */
  readonly time_estimate?: number | undefined;
  readonly spent_time?: SpentTime | undefined;
  /** The id of a logged time of the issue. */
  readonly delete_timelog?: number | undefined;
}

/**
 * Opens an issue.
 *
 * @throws DomainError `forbidden`, `unauthenticated`, `invalid`, `conflict` if the iid is taken, `too_many_requests` if
 *   the caller opens more than `issues_create_limit` in a minute
 */
export const createIssue = async (ctx: Context, seen: ProjectRow, given: NewIssue): Promise<IssueRow> => {
  requireAbility(ctx, seen, 'create_issue');
  if (ctx.actor.userId === null) throw unauthenticated();
  await limitAction(ctx, 'issues_create_limit');
  checkWeight(given.weight);
  checkDescription(given.description);
  const quick = await readQuickActions(ctx, seen, 'issue', given.description, {
    isAuthor: true,
    people: async () => ({ assignee_ids: given.assignee_ids ?? [], reviewer_ids: [] }),
  });
  const input: QuickIssue = quick ? { ...given, description: quick.text, ...quickLabels(given, quick.changes) } : given;
  const title = readTitle(input.title);
  checkDescription(input.description);
  const issue = await ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'create_issue');
    const planning: Planning & Pick<QuickIssue, 'discussion_locked' | 'time_estimate'> = can(tx, project, 'admin_issue')
      ? input
      : {};
    const own = project.access_level >= OWNER ? { iid: input.iid, created_at: input.created_at } : {};
    const assignees = await checkAssignees(tx, project, planning.assignee_ids ?? []);
    const milestone_id = (await readMilestone(tx, project, planning.milestone_id)) ?? null;
    const labels = await wantedLabels(tx, project, [], planning);
    if (own.iid !== undefined) await reserveIid(tx, project.id, 'issue', own.iid);
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
        discussion_locked: planning.discussion_locked ?? null,
        time_estimate: planning.time_estimate ?? 0,
        ...(own.created_at === undefined ? {} : { created_at: own.created_at }),
      })
      .returningAll()
      .executeTakeFirstOrThrow()
      .catch(asDuplicate);
    await setAssignees(tx, issue.id, [], assignees);
    await setLabels(tx, { issue_id: issue.id }, [], labels);
    await recordHistory(tx, { issue_id: issue.id }, milestoneHistory(null, milestone_id));
    if (quick) await changeSpentTime(tx, { issue_id: issue.id }, quick.changes);
    if (quick?.subscribed !== undefined) await setSubscription(tx, 'issue', issue.id, quick.subscribed);
    await countOpen(tx, null, issue);
    await emitIssue(tx, issueOpened, project, issue, {});
    return issue;
  });
  return quick?.changes.state_event === 'close' ? updateIssue(ctx, seen, issue, { state_event: 'close' }) : issue;
};

const checkWeight = (weight: number | null | undefined): void => {
  if (weight != null && weight < 0) throw invalid({ weight: ['must be greater than or equal to 0'] });
};

/** A new issue with what quick actions set. */
type QuickIssue = NewIssue & Pick<IssueChanges, 'discussion_locked' | 'time_estimate'>;

/** Adds the labels of quick actions to those given. */
const quickLabels = (given: NewIssue, { add_labels, remove_labels, ...changes }: QuickChanges): QuickChanges => ({
  ...changes,
  ...(add_labels || remove_labels || changes.labels
    ? {
        labels: [...(changes.labels ?? given.labels ?? []), ...(add_labels ?? [])].filter(
          (title) => !remove_labels?.includes(title),
        ),
      }
    : {}),
});

/**
 * Changes, closes or reopens an issue. Authors may change the text, type and state; everything else requires a Planner.
 *
 * @throws DomainError `forbidden`, `invalid`
 */
export const updateIssue = async (
  ctx: Context,
  seen: ProjectRow,
  given: IssueRow,
  sent: IssueChanges,
): Promise<IssueRow> => {
  permitted(ctx, seen, given, sent);
  checkWeight(sent.weight);
  checkDescription(sent.description);
  const quick = await readQuickActions(ctx, seen, 'issue', sent.description, {
    isAuthor: given.author_id === ctx.actor.userId,
    people: async () => ({
      assignee_ids: sent.assignee_ids ?? (await issueEffortsByIds(ctx, [given.id])).get(given.id)?.assignee_ids ?? [],
      reviewer_ids: [],
    }),
  });
  const input: IssueChanges = quick ? { ...sent, description: quick.text, ...quick.changes } : sent;
  // Only these attributes change the count of open issues in the row of the project.
  const counts = input.state_event !== undefined || input.confidential !== undefined;
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'read_issue', counts ? 'alone' : 'shared');
    const before = await lockIssue(tx, project, given);
    const allowed = permitted(tx, project, before, input);
    const { state_event, assignee_ids, people_mode } = allowed;
    const changes = differences(
      { ...before },
      {
        title: allowed.title === undefined ? undefined : readTitle(allowed.title),
        description: allowed.description,
        issue_type: allowed.issue_type,
        state: state_event && (state_event === 'close' ? 'closed' : 'opened'),
        milestone_id: await readMilestone(tx, project, allowed.milestone_id),
        due_date: allowed.due_date,
        weight: allowed.weight,
        confidential: allowed.confidential,
        discussion_locked: allowed.discussion_locked,
        time_estimate: allowed.time_estimate,
      },
    );
    if (quick?.subscribed !== undefined) await setSubscription(tx, 'issue', before.id, quick.subscribed);
    const values = newValues(changes);
    const spent = await changeSpentTime(tx, { issue_id: before.id }, allowed);
    if (spent) changes.total_time_spent = spent;
    const labels = await changeLabels(tx, project, { issue_id: before.id }, allowed);
    if (labels) changes.labels = labels;
    const assigneesBefore = (await issueEffortsByIds(tx, [before.id])).get(before.id)?.assignee_ids ?? [];
    const assignees =
      assignee_ids === undefined
        ? assigneesBefore
        : peopleAfter(
            people_mode,
            assigneesBefore,
            people_mode === 'remove' ? assignee_ids : await checkAssignees(tx, project, assignee_ids, assigneesBefore),
          );
    if (String(assignees) !== String(assigneesBefore)) {
      changes.assignees = await peopleChange(tx, assigneesBefore, assignees);
      await setAssignees(tx, before.id, assigneesBefore, assignees);
    }
    if (Object.keys(changes).length === 0) return before;
    const after = await tx.db
      .updateTable('issues')
      .set({ ...values, ...changeStamps(tx, changes) })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    const { closed_at, updated_at, updated_by_id, last_edited_at, last_edited_by_id } = after;
    Object.assign(
      changes,
      differences({ ...before }, { closed_at, updated_at, updated_by_id, last_edited_at, last_edited_by_id }),
    );
    await recordHistory(tx, { issue_id: after.id }, updateHistory(before, after));
    await recordChangeNotes(tx, { issue_id: after.id }, changes);
    await countOpen(tx, before, after);
    const kind = !changes.state ? issueUpdated : after.state === 'closed' ? issueClosed : issueReopened;
    const opens = before.confidential && !after.confidential;
    await emitIssue(tx, kind, project, after, opens ? withoutPrevious(changes, ['confidential']) : changes);
    return after;
  });
};

/** Deletes an issue with all its comments. For owners. @throws DomainError `forbidden`, `modified` */
export const deleteIssue = async (
  ctx: Context,
  seen: ProjectRow,
  given: IssueRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  requireAbility(ctx, seen, 'remove_issue');
  await ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'remove_issue');
    const issue = await lockIssue(tx, project, given);
    requireUnchanged(issue, unchangedSince);
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

/**
 * Returns the changes that the caller may make. If an author below Planner sends only others, this fails instead of
 * silently changing nothing.
 *
 * @throws DomainError `forbidden`
 */
const permitted = (
  ctx: Pick<Context, 'actor'>,
  project: ProjectRow,
  issue: Pick<IssueRow, 'author_id'>,
  input: IssueChanges,
): IssueChanges => {
  if (!canUpdateIssue(ctx, project, issue)) throw forbidden();
  if (can(ctx, project, 'admin_issue')) return input;
  const { title, description, state_event, issue_type } = input;
  const own = { title, description, state_event, issue_type };
  if (Object.values(own).every((value) => value === undefined)) throw forbidden();
  return own;
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
    checkPeople('assignee_ids', after);
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

const asDuplicate = (error: unknown): never => {
  if (brokenConstraint(error) === 'issues_project_id_iid_key') throw conflict('Duplicated issue');
  throw error;
};
