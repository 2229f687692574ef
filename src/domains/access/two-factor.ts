import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/**
 * Returns the shortest grace period, in hours, of the groups that require a second factor of this member, or null when
 * none does. A group's requirement also applies to members of its subgroups.
 */
export const groupGrace = async (ctx: Pick<Context, 'db'>, userId: number): Promise<number | null> => {
  const { rows } = await sql<{ hours: number | null }>`
    select min(g.two_factor_grace_period) as hours from namespaces g
    where g.require_two_factor_authentication and exists (
      select 1 from namespace_access a join namespaces n on n.id = a.namespace_id
      where a.user_id = ${userId} and not a.via_share and a.expires_at > current_date
        and n.traversal_ids @> array[g.id])`.execute(ctx.db);
  return rows[0]?.hours ?? null;
};
