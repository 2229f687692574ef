import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { requireUser } from './policy.ts';
import { type UserSummary, userSummaryColumns } from './queries.ts';

/** Someone with the day on which he was last about. */
export interface UserActivity extends UserSummary {
  readonly last_activity_on: string;
}

/**
 * When people with public profiles were last about, for administrators all people, since the day `from` (by default
 * half a year ago), the longest ago first (specification 2 §4.1).
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
