import { sql } from 'kysely';
import { REPORTER } from '#domains/access/model.ts';
import { createIssue, updateIssue } from '#domains/issues/commands.ts';
import { canUpdateIssue, type IssueRow } from '#domains/issues/model.ts';
import { issuesByIds } from '#domains/issues/queries.ts';
import { assignableAmong, readersByProject } from '#domains/planning/readers.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { errorResolved, errorUpdated } from '../events.ts';
import type { ErrorStatus } from '../model.ts';
import { emitForErrors } from './emit.ts';
import { notifyOfErrors } from './notifications.ts';
import { type ErrorRow, errorsByIds } from './queries.ts';

export interface ErrorChanges {
  readonly status?: ErrorStatus | undefined;
  /** With `resolved`: the release that has the fix. Events from earlier releases do not reopen the error. */
  readonly release?: string | undefined;
  /** With `ignored`: the time at which it ends. */
  readonly ignored_until?: string | undefined;
  /** With `ignored`: it ends after so many more events. */
  readonly ignored_events?: number | undefined;
  /** Null assigns nobody. */
  readonly assignee_id?: number | null | undefined;
  /** An issue of the same project. Null removes the link. */
  readonly issue_id?: number | null | undefined;
}

/** Errors that one call changes at most. */
const MAX_ERRORS = 100;

/**
 * Resolves, ignores, reopens, assigns or links an error. Resolving closes the linked issue, if the caller may.
 *
 * @throws DomainError `forbidden` below Developer, `not_found`, `invalid`
 */
export const updateError = async (
  ctx: Context,
  seen: ProjectRow,
  id: number,
  changes: ErrorChanges,
): Promise<ErrorRow> => {
  const [row] = await updateErrors(ctx, seen, [id], changes);
  if (!row) throw notFound('Error');
  return row;
};

/** The same for up to 100 errors of a project: all of them or none. Returns them in the given order. */
export const updateErrors = async (
  ctx: Context,
  seen: ProjectRow,
  given: readonly number[],
  changes: ErrorChanges,
): Promise<readonly ErrorRow[]> => {
  requireAbility(ctx, seen, 'update_error');
  checkChanges(ctx, changes);
  const ids = [...new Set(given)];
  checkNumber(ids);
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'update_error');
    const before = await lockErrors(tx, project, ids);
    const { assignee_id, issue_id } = changes;
    if (assignee_id != null && before.some((row) => row.assignee_id !== assignee_id))
      await checkAssignee(tx, project, assignee_id);
    if (issue_id != null) await findIssueOf(tx, project, issue_id);
    await tx.db
      .updateTable('errors')
      .set({
        ...(await statusAfter(tx, project, changes)),
        ...(assignee_id === undefined ? {} : { assignee_id }),
        ...(issue_id === undefined ? {} : { issue_id }),
        updated_at: sql`now()`,
      })
      .where(sql<boolean>`id = any (${ids}::bigint[])`)
      .execute();
    const { status } = changes;
    const isResolved = (row: ErrorRow) => status !== undefined && isFixed(status) && !isFixed(row.status);
    const resolved = before.filter(isResolved);
    const issueIds = new Set(resolved.flatMap((row) => (issue_id === undefined ? row.issue_id : issue_id) ?? []));
    for (const issueId of issueIds) await closeIssue(tx, project, issueId);
    const idsOf = (rows: readonly ErrorRow[]) => rows.map(({ id }) => id);
    await emitForErrors(tx, errorResolved, idsOf(resolved));
    await emitForErrors(tx, errorUpdated, idsOf(before.filter((row) => !isResolved(row))));
    await notifyOfErrors(tx, 'resolved', idsOf(resolved));
    return inOrder(await errorsByIds(tx, ids), ids);
  });
};

/**
 * Opens an issue about the error, and links it. Without a title and description it gets those of the error.
 *
 * @throws DomainError `forbidden` below Developer or if the caller may not open issues, `not_found`, `invalid`
 */
export const createIssueForError = async (
  ctx: Context,
  seen: ProjectRow,
  id: number,
  given: {
    readonly title?: string | undefined;
    readonly description?: string | undefined;
    readonly confidential?: boolean | undefined;
  },
): Promise<{ readonly error: ErrorRow; readonly issue: IssueRow }> => {
  requireAbility(ctx, seen, 'update_error');
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'update_error');
    const before = await lockError(tx, project, id);
    const issue = await createIssue(tx, project, {
      title: given.title ?? before.title.slice(0, 255).toWellFormed(),
      description: given.description ?? descriptionOf(before),
      confidential: given.confidential,
    });
    await tx.db
      .updateTable('errors')
      .set({ issue_id: issue.id, updated_at: sql`now()` })
      .where('id', '=', id)
      .execute();
    await emitForErrors(tx, errorUpdated, [id]);
    return { error: await reread(tx, id), issue };
  });
};

export const checkNumber = (ids: readonly number[]): void => {
  if (ids.length === 0 || ids.length > MAX_ERRORS) throw invalid({ ids: [`must have 1 to ${MAX_ERRORS} items`] });
};

const isFixed = (status: ErrorStatus): boolean => status === 'resolved' || status === 'resolved_in_next_release';

const checkChanges = ({ clock }: Context, { status, release, ignored_until, ignored_events }: ErrorChanges): void => {
  if (release !== undefined && status !== 'resolved') throw invalid({ release: ['needs the status resolved'] });
  if (status !== 'ignored') {
    if (ignored_until !== undefined) throw invalid({ ignored_until: ['needs the status ignored'] });
    if (ignored_events !== undefined) throw invalid({ ignored_events: ['needs the status ignored'] });
  }
  if (ignored_until !== undefined && new Date(ignored_until) <= clock.now())
    throw invalid({ ignored_until: ['must be in the future'] });
  if (ignored_events !== undefined && ignored_events < 1) throw invalid({ ignored_events: ['must be at least 1'] });
};

/** Returns the columns that belong to the status. A status without its attributes keeps none of another. */
const statusAfter = async (
  tx: Tx,
  project: ProjectRow,
  { status, release, ignored_until, ignored_events }: ErrorChanges,
) => {
  if (status === undefined) return {};
  const fixed = isFixed(status);
  return {
    status,
    resolved_at: fixed ? tx.clock.now().toISOString() : null,
    resolved_by_id: fixed ? tx.actor.userId : null,
    resolved_release_id: await resolvedRelease(tx, project, status, release),
    ignored_until: ignored_until ?? null,
    ignored_until_count: ignored_events === undefined ? null : sql<number>`event_count + ${ignored_events}::bigint`,
  };
};

const resolvedRelease = async (
  tx: Tx,
  project: ProjectRow,
  status: ErrorStatus,
  version: string | undefined,
): Promise<number | null> => {
  const releases = tx.db.selectFrom('error_releases').select('id').where('project_id', '=', project.id);
  if (status === 'resolved_in_next_release') {
    const newest = await releases.orderBy('id', 'desc').limit(1).executeTakeFirst();
    if (!newest) throw invalid({ status: ['needs a release, and the project has reported none'] });
    return newest.id;
  }
  if (version === undefined) return null;
  const found = await releases.where('version', '=', version).executeTakeFirst();
  if (!found) throw invalid({ release: ['is unknown in this project'] });
  return found.id;
};

/** Locks the errors in the order of their ids, and returns them in the given order. @throws DomainError `not_found` */
export const lockErrors = async (tx: Tx, project: ProjectRow, ids: readonly number[]): Promise<readonly ErrorRow[]> => {
  const locked = await tx.db
    .selectFrom('errors')
    .select('id')
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .where('project_id', '=', project.id)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute();
  if (locked.length < ids.length) throw notFound('Error');
  return inOrder(await errorsByIds(tx, ids), ids);
};

const inOrder = (rows: ReadonlyMap<number, ErrorRow>, ids: readonly number[]): readonly ErrorRow[] =>
  ids.flatMap((id) => rows.get(id) ?? []);

const lockError = async (tx: Tx, project: ProjectRow, id: number): Promise<ErrorRow> => {
  const [row] = await lockErrors(tx, project, [id]);
  if (!row) throw notFound('Error');
  return row;
};

const reread = async (tx: Tx, id: number): Promise<ErrorRow> => {
  const row = (await errorsByIds(tx, [id])).get(id);
  if (!row) throw notFound('Error');
  return row;
};

/** The error is the same for an unknown user and for one who cannot read the errors. */
const checkAssignee = async (tx: Tx, project: ProjectRow, userId: number): Promise<void> => {
  const readers = await readersByProject(tx, [{ project, userIds: [userId] }], REPORTER, () => false);
  const assignable = await assignableAmong(tx, readers.get(project.id) ?? new Set());
  if (!assignable.has(userId)) throw invalid({ assignee: ['cannot be assigned'] });
};

const findIssueOf = async (tx: Tx, project: ProjectRow, id: number): Promise<IssueRow> => {
  const issue = (await issuesByIds(tx, [id])).get(id);
  if (issue?.project_id !== project.id) throw invalid({ issue: ['is not an issue of this project'] });
  return issue;
};

const closeIssue = async (tx: Tx, project: ProjectRow, issueId: number): Promise<void> => {
  const issue = (await issuesByIds(tx, [issueId])).get(issueId);
  if (issue?.state !== 'opened' || issue.project_id !== project.id || !canUpdateIssue(tx, project, issue)) return;
  await updateIssue(tx, project, issue, { state_event: 'close' });
};

/** Reports are not trusted. The text goes into a code block that it cannot end. */
const descriptionOf = ({
  title,
  culprit,
  level,
  first_seen,
  event_count,
  user_count,
  last_release,
}: ErrorRow): string =>
  [
    '```plaintext',
    title.replaceAll('```', "'''"),
    ...(culprit === null ? [] : [`in ${culprit.replaceAll('```', "'''")}`]),
    '```',
    '',
    `Level: ${level}  `,
    `First seen: ${first_seen.slice(0, 16)} UTC  `,
    `Events: ${event_count}, affected users: ${user_count}`,
    ...(last_release === null ? [] : ['', '```plaintext', `Release ${last_release.replaceAll('```', "'''")}`, '```']),
  ].join('\n');
