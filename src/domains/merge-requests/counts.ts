import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/** How many merge requests are open in each of the projects, by id; rights are the caller's to check. */
export const openCountsByProjects = async (
  ctx: Pick<Context, 'db'>,
  projectIds: readonly number[],
): Promise<Map<number, number>> => {
  const rows = await ctx.db
    .selectFrom('merge_requests')
    .select(['project_id', sql<number>`count(*)`.as('count')])
    .where(sql<boolean>`project_id = any (${projectIds}::bigint[])`)
    .where('state', '=', 'opened')
    .groupBy('project_id')
    .execute();
  return new Map(rows.map((row) => [row.project_id, row.count]));
};
