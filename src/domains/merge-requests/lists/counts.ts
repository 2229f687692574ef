import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/** Returns the number of open merge requests of each project by id. The caller checks access. */
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
