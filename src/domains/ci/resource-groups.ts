import { type Selectable, sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, listOfRows, type SortKey } from '#platform/db/list.ts';
import type { ResourceGroups } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { assignResource, upcomingIn } from './jobs.ts';
import { type JobRow, jobsByIds } from './queries.ts';

export type ResourceGroupRow = Selectable<ResourceGroups>;

/** Which of the jobs that share a resource gets it next. */
export const PROCESS_MODES = ['unordered', 'oldest_first', 'newest_first', 'newest_ready_first'] as const;
export type ProcessMode = (typeof PROCESS_MODES)[number];

const MAX_UPCOMING = 1_000;

const byId: readonly SortKey<ResourceGroupRow>[] = [{ by: sql.ref('resource_groups.id'), of: ({ id }) => id }];

/** Lists the resource groups of the project, oldest first. @throws DomainError as `requireAbility(read_pipeline)` */
export const listResourceGroups = (ctx: Context, project: ProjectRow): List<ResourceGroupRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const query = ctx.db.selectFrom('resource_groups').selectAll().where('project_id', '=', project.id);
  return listOf(ctx.db, query, byId, 'asc');
};

/** The same for many projects. The caller checks permissions. */
export const listResourceGroupsBelow = ({ db }: Context): BatchedList<ResourceGroupRow> =>
  batchedListOf(db, (id) => db.selectFrom('resource_groups').selectAll().where('project_id', '=', id), byId, 'asc');

/** Returns the resource groups by id. The caller checks permissions. */
export const resourceGroupsByIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ResourceGroupRow>> => {
  const found = sql<boolean>`id = any (${ids}::bigint[])`;
  const rows = await db.selectFrom('resource_groups').selectAll().where(found).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** @throws DomainError as `requireAbility(read_pipeline)`, `not_found` (Resource Group) */
export const getResourceGroup = async (ctx: Context, project: ProjectRow, key: string): Promise<ResourceGroupRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = await ctx.db
    .selectFrom('resource_groups')
    .selectAll()
    .where('project_id', '=', project.id)
    .where('key', '=', key)
    .executeTakeFirst();
  if (!row) throw notFound('Resource Group');
  return row;
};

/** Lists the jobs that wait for the resource, the next one first, at most 1,000. @throws as `getResourceGroup` */
export const listUpcomingJobs = async (ctx: Context, project: ProjectRow, key: string): Promise<List<JobRow>> => {
  const group = await getResourceGroup(ctx, project, key);
  const jobs = await upcomingJobsOf(ctx, [group]);
  return listOfRows(jobs.get(group.id) ?? [], (job) => job.id);
};

/**
 * Returns the jobs that wait for each of the resources, the next one first, at most 1,000 of each. The caller checks
 * permissions.
 */
export const upcomingJobsOf = async (
  ctx: Context,
  groups: readonly Pick<ResourceGroupRow, 'id' | 'process_mode'>[],
): Promise<ReadonlyMap<number, readonly JobRow[]>> => {
  const waiting: { readonly group_id: number; readonly id: number }[] = [];
  for (const [mode, alike] of Map.groupBy(groups, ({ process_mode }) => process_mode)) {
    const { statuses, order } = upcomingIn(mode);
    const { rows } = await sql<{ group_id: number; id: number }>`
      select given.id as group_id, upcoming.id from unnest(${alike.map(({ id }) => id)}::bigint[]) as given (id)
        cross join lateral (
          select jobs.id, row_number() over (order by ${order}) as place from jobs
          where jobs.resource_group_id = given.id and not jobs.retried and jobs.status in (${sql.join([...statuses])})
          order by place limit ${MAX_UPCOMING}) as upcoming
      order by given.id, upcoming.place`.execute(ctx.db);
    waiting.push(...rows);
  }
  const jobs = await jobsByIds(
    ctx,
    waiting.map(({ id }) => id),
  );
  const byGroup = Map.groupBy(waiting, ({ group_id }) => group_id);
  return new Map([...byGroup].map(([id, upcoming]) => [id, upcoming.flatMap((each) => jobs.get(each.id) ?? [])]));
};

/** @throws DomainError as `getResourceGroup`, `requireAbility(admin_pipeline)` */
export const setProcessMode = async (
  ctx: Context,
  project: ProjectRow,
  key: string,
  process_mode: ProcessMode,
): Promise<ResourceGroupRow> => {
  const { id } = await getResourceGroup(ctx, project, key);
  requireAbility(ctx, project, 'admin_pipeline');
  return ctx.transaction(async (tx) => {
    const row = await tx.db
      .updateTable('resource_groups')
      .set({ process_mode, updated_at: sql`now()` })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirst();
    if (!row) throw notFound('Resource Group');
    // Another job may be the next one now.
    tx.enqueue(assignResource, { id }, { key: `ci.resource:${id}` });
    return row;
  });
};
