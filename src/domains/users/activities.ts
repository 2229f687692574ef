import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { requireUser } from './policy.ts';
import { type UserSummary, userSummaryColumns } from './queries.ts';

/** A user with the day of their last activity. */
export interface UserActivity extends UserSummary {
  readonly last_activity_on: string;
}

/**
 * Lists users with their day of last activity, least recent first (specification 2 §4.1). Administrators see everyone,
 * other callers only users with public profiles. `from` is the first day and defaults to half a year ago.
 *
 * @throws `unauthenticated`
 */
export const listActivities = (ctx: Context, from?: string | undefined): List<UserActivity> => {
  requireUser(ctx);
  const first =
    from === undefined
      ? sql<boolean>`users.last_activity_on >= current_date - interval '6 months'`
      : sql<boolean>`users.last_activity_on >= ${from}::date`;
  let query = ctx.db
    .selectFrom('users')
    .select(userSummaryColumns)
    .select(sql<string>`users.last_activity_on`.as('last_activity_on'))
    .where(first);
  if (!ctx.actor.isAdmin) query = query.where('users.private_profile', '=', false);
  return listOf(
    ctx.db,
    query,
    [
      { by: sql.ref('users.last_activity_on'), of: (row) => row.last_activity_on },
      { by: sql.ref('users.id'), of: (row) => row.id },
    ],
    'asc',
  );
};
