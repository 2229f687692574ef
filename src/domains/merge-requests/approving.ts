import { addApproval } from '#domains/approvals/approvals.ts';
import { digestOfChanges } from '#domains/approvals/of-version.ts';
import { type ApprovalState, approvalState } from '#domains/approvals/state.ts';
import { recordSystemNote } from '#domains/planning/system-notes.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { checkGuarded } from '#domains/users/credentials.ts';
import { verifyPassword } from '#domains/users/password.ts';
import { getUser } from '#domains/users/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, forbidden, notFound, unauthenticated } from '#platform/errors.ts';
import { definePort } from '#platform/port.ts';
import { mergeRequestApproved, mergeRequestReviewed } from './events.ts';
import { lockInProject } from './locking.ts';
import { getMergeRequest, type MergeRequestRow } from './queries.ts';
import { setReviewState } from './reviewing/reviews.ts';
import { emitApproval, emitMergeRequest } from './snapshot.ts';
import { diffsByMergeRequestIds } from './versions/queries.ts';
import { refreshNow } from './versions/refresh.ts';
import { withdraw, withdrawAll } from './withdrawing.ts';

export interface Approve {
  /** The head that the caller has reviewed. */
  readonly sha?: string | undefined;
  /** The caller's password, which settings may require. */
  readonly approval_password?: string | undefined;
  /** Publishes the caller's draft notes too. */
  readonly publish_review?: boolean | undefined;
}

/** Publishes the caller's draft notes on a merge request. Implemented in notes, which imports this domain. */
export const publishReview = definePort<Context, [ProjectRow, MergeRequestRow], Promise<void>>('publishReview');

/**
 * Returns how a merge request is approved, with its rules.
 *
 * @throws DomainError as `requireAbility` if the caller may not read the rules, `not_found` if it was deleted meanwhile
 */
export const getApprovalState = async (
  ctx: Context,
  project: ProjectRow,
  { id }: Pick<MergeRequestRow, 'id'>,
): Promise<ApprovalState> => {
  requireAbility(ctx, project, 'read_approval_rule');
  const state = await approvalState(ctx, id);
  if (!state) throw notFound();
  return state;
};

/**
 * Approves a merge request for the caller. Returns false if they have approved it already.
 *
 * @throws DomainError `forbidden` without the right to approve, or if it is not open; `unauthenticated` for authors and
 *   committers whom settings keep out, and for a missing or wrong password; `conflict` for another head than `sha`
 */
export const approveMergeRequest = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  { sha, approval_password, publish_review = false }: Approve,
): Promise<boolean> => {
  const userId = requireUser(ctx);
  // Before the first version, the head, its committers and its code owners are unknown.
  if (given.merge_status === 'preparing' && can(ctx, seen, 'create_merge_request_in')) await refreshNow(ctx, given.id);
  const { settings } = await requireApprover(ctx, seen, given);
  if (settings.require_reauthentication_to_approve) await requirePassword(ctx, userId, approval_password);
  const diff = (await diffsByMergeRequestIds(ctx, [given.id])).get(given.id);
  const head = diff?.head_commit_sha ?? null;
  const patch = head === null ? null : await digestOfChanges(ctx, seen, { base: diff?.base_commit_sha ?? null, head });
  return ctx.transaction(async (tx) => {
    const { project, row } = await lockInProject(tx, seen, given);
    await requireApprover(tx, project, row);
    if (row.state !== 'opened') throw forbidden('The merge request is not open');
    if (sha !== undefined && sha !== row.diff_head_sha) {
      throw conflict(`SHA does not match HEAD of source branch: ${row.diff_head_sha}`);
    }
    const added = await addApproval(tx, {
      merge_request_id: row.id,
      user_id: userId,
      head_sha: row.diff_head_sha,
      patch_id: row.diff_head_sha === head ? patch : null,
    });
    if (!added) return false;
    await setReviewState(tx, row.id, [userId], 'approved');
    if (publish_review) await publishReview(tx, project, row);
    await recordSystemNote(tx, { merge_request_id: row.id }, 'approved', 'approved this merge request');
    const after = await approvalState(tx, row.id);
    await emitApproval(tx, mergeRequestApproved, project, await getMergeRequest(tx, project, row.iid), {
      user_ids: [userId],
      is_decisive: after?.approved ?? true,
    });
    return true;
  });
};

/**
 * Takes the caller's approval back. Returns false if there is none.
 *
 * @throws DomainError `forbidden` if the merge request is merged, or the project is read-only
 */
export const unapproveMergeRequest = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
): Promise<boolean> => {
  const userId = requireUser(ctx);
  requireAbility(ctx, seen, 'create_merge_request_in');
  return ctx.transaction(async (tx) => {
    const { project, row } = await lockInProject(tx, seen, given);
    requireAbility(tx, project, 'create_merge_request_in');
    if (row.state === 'merged' || row.state === 'locked') throw forbidden('The merge request is merged');
    return (await withdraw(tx, project, row, [userId])).length > 0;
  });
};

/** The users of tokens of projects, and the service accounts of groups and of the instance. */
const BOTS: ReadonlySet<string> = new Set(['project_bot', 'service_account']);

/**
 * Removes all approvals. Only bots of projects and groups may do this, so that a pipeline can ask for new ones.
 *
 * @throws DomainError `unauthenticated` for others, and for a merged merge request
 */
export const resetApprovals = async (ctx: Context, seen: ProjectRow, given: MergeRequestRow): Promise<void> => {
  const userId = requireUser(ctx);
  const caller = await getUser(ctx, userId);
  if (!BOTS.has(caller.user_type) || !can(ctx, seen, 'admin_merge_request')) throw unauthenticated();
  await ctx.transaction(async (tx) => {
    const { project, row } = await lockInProject(tx, seen, given);
    if (!can(tx, project, 'admin_merge_request')) throw unauthenticated();
    if (row.state === 'merged' || row.state === 'locked') throw unauthenticated();
    await withdrawAll(tx, project, row);
  });
};

/**
 * As a reviewer, asks for changes: the merge request cannot be merged until they approve, or take this back. Returns
 * false if the state of the review was that already.
 *
 * @throws DomainError `forbidden` if the caller does not review the merge request, or it is not open
 */
export const reviewMergeRequest = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  state: 'requested_changes' | 'reviewed',
): Promise<boolean> => {
  const userId = requireUser(ctx);
  return ctx.transaction(async (tx) => {
    const { project, row } = await lockInProject(tx, seen, given);
    if (row.state !== 'opened') throw forbidden('The merge request is not open');
    if (!(await isReviewer(tx, row.id, userId))) throw forbidden('Only reviewers can ask for changes');
    if (state === 'requested_changes') await withdraw(tx, project, row, [userId]);
    const changed = await setReviewState(tx, row.id, [userId], state);
    if (changed) await emitMergeRequest(tx, mergeRequestReviewed, project, row, {});
    return changed;
  });
};

/**
 * The caller, if they review the merge request, has begun to do so with a draft note, or has reviewed it. A verdict that
 * they gave stays.
 */
export const markReview = async (
  tx: Tx,
  project: ProjectRow,
  row: MergeRequestRow,
  state: 'review_started' | 'reviewed',
): Promise<void> => {
  const { userId } = tx.actor;
  if (userId === null || row.state !== 'opened') return;
  const changed = await setReviewState(tx, row.id, [userId], state, ['approved', 'requested_changes']);
  if (changed) await emitMergeRequest(tx, mergeRequestReviewed, project, row, {});
};

/** @throws DomainError `forbidden`; `unauthenticated` for those whom settings keep out */
const requireApprover = async (ctx: Context, project: ProjectRow, { id }: MergeRequestRow): Promise<ApprovalState> => {
  const state = await approvalState(ctx, id);
  if (!state || !isApprover(ctx, project, state)) throw forbidden();
  if (state.excluded(requireUser(ctx))) throw unauthenticated();
  return state;
};

/** Returns whether the caller may approve: Developers and members whom a rule names, unless settings keep them out. */
export const mayApprove = (ctx: Context, project: ProjectRow, state: ApprovalState): boolean =>
  ctx.actor.userId !== null && isApprover(ctx, project, state) && !state.excluded(ctx.actor.userId);

const isApprover = (ctx: Context, project: ProjectRow, state: ApprovalState): boolean => {
  const { userId } = ctx.actor;
  if (userId === null || !can(ctx, project, 'create_merge_request_in')) return false;
  return can(ctx, project, 'admin_merge_request') || state.rules.some((rule) => rule.eligible_ids.includes(userId));
};

const isReviewer = async ({ db }: Pick<Context, 'db'>, mergeRequestId: number, userId: number): Promise<boolean> => {
  const row = await db
    .selectFrom('merge_request_reviewers')
    .select('user_id')
    .where('merge_request_id', '=', mergeRequestId)
    .where('user_id', '=', userId)
    .executeTakeFirst();
  return row !== undefined;
};

const requireUser = (ctx: Context): number => {
  if (ctx.actor.userId === null) throw unauthenticated();
  return ctx.actor.userId;
};

/** Guesses are rate-limited as for sign-in. @throws DomainError `unauthenticated`, `too_many_requests` */
const requirePassword = async (ctx: Context, userId: number, password: string | undefined): Promise<void> => {
  if (password === undefined) throw unauthenticated();
  const row = await ctx.db.selectFrom('users').select('password_hash').where('id', '=', userId).executeTakeFirst();
  await checkGuarded(ctx, userId, () => verifyPassword(row?.password_hash ?? null, password));
};
