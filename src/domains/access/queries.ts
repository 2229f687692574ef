import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/** Returns those of the given users who hold at least the role `least` on the project. */
export const usersWithProjectLevel = async (
  ctx: Context,
  projectId: number,
  userIds: readonly number[],
  least: number,
): Promise<ReadonlySet<number>> => {
  const { rows } = await sql<{ user_id: number }>`
    select a.user_id from namespace_access a join projects p on p.namespace_id = a.namespace_id
      where p.id = ${projectId} and a.user_id = any (${userIds}::bigint[]) and a.access_level >= ${least} and a.expires_at > current_date
    union
    select m.user_id from members m
      where m.project_id = ${projectId} and m.user_id = any (${userIds}::bigint[]) and m.access_level >= ${least}
        and (m.expires_at is null or m.expires_at > current_date)
    union
    select a.user_id from project_shares s
      join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = any (${userIds}::bigint[]) and not a.via_share
      where s.project_id = ${projectId} and least(s.access_level, a.access_level) >= ${least} and a.expires_at > current_date
        and (s.expires_at is null or s.expires_at > current_date)`.execute(ctx.db);
  return new Set(rows.map((row) => row.user_id));
};
