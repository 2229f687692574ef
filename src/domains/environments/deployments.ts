import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { DeploymentRow, DeploymentStatus } from './model.ts';

export const DEPLOYMENT_ORDERS = ['id', 'iid', 'created_at', 'updated_at', 'finished_at', 'ref'] as const;

export interface DeploymentFilter {
  readonly ids?: readonly number[] | undefined;
  /** The name of an environment. */
  readonly environment?: string | undefined;
  readonly statuses?: readonly DeploymentStatus[] | null | undefined;
  readonly updated_after?: string | undefined;
  readonly updated_before?: string | undefined;
  readonly finished_after?: string | undefined;
  readonly finished_before?: string | undefined;
  readonly order_by?: (typeof DEPLOYMENT_ORDERS)[number] | undefined;
  readonly sort?: SortDirection | undefined;
}

const matching = ({ db }: Pick<Context, 'db'>, filter: DeploymentFilter) => {
  let query = db
    .selectFrom('deployments')
    .innerJoin('environments', 'environments.id', 'deployments.environment_id')
    .selectAll('deployments')
    .select('environments.name as environment');
  if (filter.ids) query = query.where(sql<boolean>`deployments.id = any (${filter.ids}::bigint[])`);
  if (filter.environment !== undefined) query = query.where('environments.name', '=', filter.environment);
  if (filter.statuses) query = query.where(sql<boolean>`deployments.status = any (${filter.statuses}::text[])`);
  for (const name of ['updated', 'finished'] as const) {
    const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
    const column = sql.ref(`deployments.${name}_at`);
    if (after) query = query.where(atOrAfter(column, after));
    if (before) query = query.where(atOrBefore(column, before));
  }
  return query;
};

const keysOf = (order: (typeof DEPLOYMENT_ORDERS)[number] = 'id'): SortKey<DeploymentRow>[] => {
  const byId: SortKey<DeploymentRow> = { by: sql.ref('deployments.id'), of: ({ id }) => id };
  if (order === 'id') return [byId];
  if (order !== 'finished_at') return [{ by: sql.ref(`deployments.${order}`), of: (row) => row[order] }, byId];
  // Unfinished deployments come last in ascending order.
  return [
    {
      by: sql`coalesce(deployments.finished_at, '9999-01-01T00:00:00Z'::timestamptz)`,
      of: (row) => row.finished_at ?? '9999-01-01T00:00:00Z',
    },
    byId,
  ];
};

/** Lists the deployments of the project. @throws as `requireAbility(read_pipeline)` */
export const listDeployments = (ctx: Context, project: ProjectRow, filter: DeploymentFilter): List<DeploymentRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const query = matching(ctx, filter).where('deployments.project_id', '=', project.id);
  return listOf(ctx.db, query, keysOf(filter.order_by), filter.sort ?? 'asc');
};

/** The same for many environments, newest first. The caller checks permissions. */
export const listDeploymentsBelow = (ctx: Context, filter: DeploymentFilter): BatchedList<DeploymentRow> =>
  batchedListOf(
    ctx.db,
    (environmentId) => matching(ctx, filter).where('deployments.environment_id', '=', environmentId),
    keysOf(),
    'desc',
  );

/** Returns the deployments by id. The caller checks permissions. */
export const deploymentsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, DeploymentRow>> => {
  const rows = ids.length === 0 ? [] : await matching(ctx, { ids }).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** @throws DomainError as `requireAbility(read_pipeline)`, `not_found` (Deployment) */
export const getDeployment = async (ctx: Context, project: ProjectRow, id: number): Promise<DeploymentRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = (await deploymentsByIds(ctx, [id])).get(id);
  if (row?.project_id !== project.id) throw notFound('Deployment');
  return row;
};
