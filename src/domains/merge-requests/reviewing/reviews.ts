import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { REVIEW_STATES, type ReviewState } from '../model.ts';

/** Returns the states of the reviews of merge requests: by merge request, then by reviewer. */
export const reviewStatesByIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ReadonlyMap<number, ReviewState>>> => {
  const rows = await db
    .selectFrom('merge_request_reviewers')
    .select(['merge_request_id', 'user_id', 'state'])
    .where(sql<boolean>`merge_request_id = any (${ids}::bigint[])`)
    .execute();
  const byId = Map.groupBy(rows, ({ merge_request_id }) => merge_request_id);
  return new Map(
    [...byId].map(([id, reviews]) => [
      id,
      new Map(
        reviews.map(({ user_id, state }) => [user_id, REVIEW_STATES.find((each) => each === state) ?? 'unreviewed']),
      ),
    ]),
  );
};

/**
 * Sets the state of these users if they review the merge request. Those in a state of `kept` keep it. Returns false if
 * nobody's state changed.
 */
export const setReviewState = async (
  tx: Tx,
  mergeRequestId: number,
  userIds: readonly number[],
  state: ReviewState,
  kept: readonly ReviewState[] = [],
): Promise<boolean> => {
  const changed = await tx.db
    .updateTable('merge_request_reviewers')
    .set({ state })
    .where('merge_request_id', '=', mergeRequestId)
    .where(sql<boolean>`user_id = any (${userIds}::bigint[])`)
    .where(sql<boolean>`state <> all (${[state, ...kept]}::text[])`)
    .returning('user_id')
    .execute();
  return changed.length > 0;
};
