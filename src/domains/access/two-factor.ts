import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { granted, MEMBER_ROLES } from './roles.ts';

/**
 * Returns the shortest grace period, in hours, of the groups that require a second factor of this member, or null when
 * none does. A group's requirement also applies to members of its subgroups.
 */
export const groupGrace = async (ctx: Pick<Context, 'db'>, userId: number): Promise<number | null> => {
  const { rows } = await sql<{ hours: number | null }>`
    select min(g.two_factor_grace_period) as hours from namespaces g
    where g.require_two_factor_authentication and exists (
      select from namespaces n where n.traversal_ids @> array[g.id]
        and n.id in (${granted(MEMBER_ROLES, MEMBER_ROLES.place, { user: userId })}))`.execute(ctx.db);
  return rows[0]?.hours ?? null;
};
