import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/**
 * The shortest grace, in hours, that a group asking for a second factor gives this member; null when none asks. What a
 * group asks for it asks of the members of all groups below it too.
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
