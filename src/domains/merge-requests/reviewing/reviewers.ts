import type { ProjectRow } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, invalid } from '#platform/errors.ts';
import { canUpdateMergeRequest } from '../commands.ts';
import { mergeRequestUpdated } from '../events.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow } from '../queries.ts';
import { emitMergeRequest } from '../snapshot.ts';
import { withdraw } from '../withdrawing.ts';
import { setReviewState } from './reviews.ts';

/**
 * Asks a reviewer to review again: their approval goes, and their state becomes `unreviewed`, unless they ask for
 * changes. Receivers of hooks find `re_requested` beside the reviewer. For Developers and the author.
 *
 * @throws DomainError `forbidden`, `invalid` for a user who is not a reviewer
 */
export const requestReviewAgain = async (
  ctx: Context,
  project: ProjectRow,
  given: MergeRequestRow,
  userId: number,
): Promise<MergeRequestRow> => {
  if (!canUpdateMergeRequest(ctx, project, given)) throw forbidden();
  return ctx.transaction(async (tx) => {
    const before = await lockMergeRequest(tx, project, given);
    const reviewers = await tx.db
      .selectFrom('merge_request_reviewers')
      .select(['user_id', 'state'])
      .where('merge_request_id', '=', before.id)
      .orderBy('user_id')
      .execute();
    const asked = reviewers.find(({ user_id }) => user_id === userId);
    if (!asked) throw invalid({ base: ['Reviewer not found'] });
    await withdraw(tx, project, before, [userId]);
    // Only the reviewer takes back that changes are needed, not the author.
    const asks = asked.state === 'requested_changes' ? asked.state : 'unreviewed';
    await setReviewState(tx, before.id, [userId], asks);
    const known = await userSummariesByIds(
      tx,
      reviewers.map(({ user_id }) => user_id),
    );
    const shown = (isAsked: (id: number) => boolean) =>
      reviewers.flatMap(({ user_id, state }) => {
        const user = known.get(user_id);
        const re_requested = isAsked(user_id);
        return user ? [{ ...hookUser(tx, user), state: re_requested ? asks : state, re_requested }] : [];
      });
    const after = await getMergeRequest(tx, project, before.iid);
    await emitMergeRequest(tx, mergeRequestUpdated, project, after, {
      reviewers: { previous: shown(() => false), current: shown((id) => id === userId) },
    });
    return after;
  });
};
