import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { userFollowed, userUnfollowed } from './events.ts';
import { requireUser, userView, viewIncludes } from './policy.ts';
import { getUser, type UserRow, type UserSummary, userSummaryColumns } from './queries.ts';

/** The two directions of following: the followers of a user, or the users they follow. */
export type FollowSide = 'followers' | 'following';

/**
 * Makes the caller follow or unfollow a user. `changed` is false when nothing changed. A private profile cannot be
 * followed by other users and is `not_found` for them. Callers can always unfollow a user they already follow.
 *
 * @throws `unauthenticated`, `not_found` (User), `bad_request` for the caller's own account
 */
export const setFollow = async (
  ctx: Context,
  id: number,
  follow: boolean,
): Promise<{ readonly user: UserRow; readonly changed: boolean }> => {
  const follower_id = requireUser(ctx);
  const user = await getUser(ctx, id);
  if (id === follower_id) throw badRequest('You cannot follow yourself');
  if (follow) requireProfile(ctx, user);
  return ctx.transaction(async (tx) => {
    const rows = follow
      ? await tx.db
          .insertInto('user_follows')
          .values({ follower_id, followed_id: id })
          .onConflict((c) => c.doNothing())
          .returning('followed_id')
          .execute()
      : await tx.db
          .deleteFrom('user_follows')
          .where('follower_id', '=', follower_id)
          .where('followed_id', '=', id)
          .returning('followed_id')
          .execute();
    if (rows.length === 0) return { user, changed: false };
    tx.emit(follow ? userFollowed : userUnfollowed, {
      subject: { type: 'User', id },
      user_ids: [id, follower_id],
      payload: { id, follower_id },
    });
    return { user, changed: true };
  });
};

/**
 * Lists the followers of a user, or the users they follow, newest account first.
 *
 * @throws `not_found` (User), also for another user's private profile
 */
export const listFollows = async (ctx: Context, id: number, side: FollowSide): Promise<List<UserSummary>> => {
  requireUser(ctx);
  requireProfile(ctx, await getUser(ctx, id));
  return listOf(ctx.db, followsOf(ctx, side, sql<number>`${id}::bigint`), [byId], 'desc');
};

/** The same for many users at once. The caller must be allowed to see their profiles. */
export const listFollowsOf = (ctx: Context, side: FollowSide): BatchedList<UserSummary> =>
  batchedListOf(ctx.db, (id) => followsOf(ctx, side, id), [byId], 'desc');

const byId: SortKey<UserSummary> = { by: sql.ref('users.id'), of: (row) => row.id };

const followsOf = (ctx: Context, side: FollowSide, id: ReturnType<typeof sql<number>>) =>
  ctx.db
    .selectFrom('users')
    .select(userSummaryColumns)
    .where(
      side === 'followers'
        ? sql<boolean>`users.id in (select f.follower_id from user_follows f where f.followed_id = ${id})`
        : sql<boolean>`users.id in (select f.followed_id from user_follows f where f.follower_id = ${id})`,
    );

const requireProfile = (ctx: Context, user: UserRow): void => {
  if (!viewIncludes(userView(ctx.actor, user), 'signed_in')) throw notFound('User');
};
