import { sql } from 'kysely';
import type { Tier } from '#domains/ci-config/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { type EnvironmentRow, type EnvironmentState, guessTier, tierOf } from './model.ts';

export interface EnvironmentFilter {
  readonly ids?: readonly number[] | undefined;
  readonly name?: string | null | undefined;
  /** A part of the name. */
  readonly search?: string | null | undefined;
  readonly states?: readonly EnvironmentState[] | null | undefined;
}

const MIN_SEARCH = 3;

const matching = ({ db }: Pick<Context, 'db'>, { ids, name, search, states }: EnvironmentFilter) => {
  if (search && search.length < MIN_SEARCH) throw badRequest(`Search query is less than ${MIN_SEARCH} characters`);
  let query = db
    .selectFrom('environments')
    .selectAll()
    .select(
      sql<
        number | null
      >`(select max(d.id) from deployments d where d.environment_id = environments.id and d.status = 'success')`.as(
        'last_deployment_id',
      ),
    );
  if (ids) query = query.where(sql<boolean>`environments.id = any (${ids}::bigint[])`);
  if (name) query = query.where('name', '=', name);
  if (search) query = query.where('name', 'ilike', containing(search));
  if (states) query = query.where(sql<boolean>`state = any (${states}::text[])`);
  return query;
};

const byId: readonly SortKey<EnvironmentRow>[] = [{ by: sql.ref('environments.id'), of: ({ id }) => id }];

/** Lists the environments of the project, oldest first. @throws as `requireAbility(read_pipeline)`, `bad_request` */
export const listEnvironments = (
  ctx: Context,
  project: ProjectRow,
  filter: EnvironmentFilter,
): List<EnvironmentRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  return listOf(ctx.db, matching(ctx, filter).where('project_id', '=', project.id), byId, 'asc');
};

/** The same for many projects. The caller checks permissions. */
export const listEnvironmentsBelow = (ctx: Context, filter: EnvironmentFilter): BatchedList<EnvironmentRow> =>
  batchedListOf(ctx.db, (projectId) => matching(ctx, filter).where('project_id', '=', projectId), byId, 'asc');

/**
 * Returns the tiers of the environments that jobs name, by the id of the job. Those without a row have the tier that
 * their name suggests.
 */
export const tiersByJobIds = async (
  { db }: Pick<Context, 'db'>,
  jobIds: readonly number[],
): Promise<ReadonlyMap<number, Tier>> => {
  if (jobIds.length === 0) return new Map();
  const { rows } = await sql<{ id: number; environment: string; tier: string | null }>`
    select j.id, j.environment, e.tier
    from jobs j left join environments e on e.project_id = j.project_id and e.name = j.environment
    where j.id = any (${jobIds}::bigint[]) and j.environment is not null`.execute(db);
  return new Map(rows.map(({ id, environment, tier }) => [id, tierOf(tier) ?? guessTier(environment)]));
};

/** Returns the environments by id. The caller checks permissions. */
export const environmentsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, EnvironmentRow>> => {
  const rows = ids.length === 0 ? [] : await matching(ctx, { ids }).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** @throws DomainError as `requireAbility(read_pipeline)`, `not_found` (Environment) */
export const getEnvironment = async (ctx: Context, project: ProjectRow, id: number): Promise<EnvironmentRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = (await environmentsByIds(ctx, [id])).get(id);
  if (row?.project_id !== project.id) throw notFound('Environment');
  return row;
};

/** Names an environment for `environmentsByKeys`. */
export const environmentKey = (projectId: number, name: string): string => `${projectId}/${name}`;

/** Returns the environments with these keys, by key. The caller checks permissions. */
export const environmentsByKeys = async (
  ctx: Pick<Context, 'db'>,
  keys: readonly string[],
): Promise<ReadonlyMap<string, EnvironmentRow>> => {
  const rows = await matching(ctx, {})
    .where(sql<boolean>`(project_id, name) in (
      select split_part(key, '/', 1)::bigint, substr(key, strpos(key, '/') + 1) from unnest(${keys}::text[]) as key)`)
    .execute();
  return new Map(rows.map((row) => [environmentKey(row.project_id, row.name), row]));
};

/** Locks the environment until the transaction ends. The caller checks permissions. Returns null if it is gone. */
export const lockEnvironment = async (tx: Tx, id: number): Promise<EnvironmentRow | null> => {
  await sql`select from environments where id = ${id} for no key update`.execute(tx.db);
  return (await environmentsByIds(tx, [id])).get(id) ?? null;
};
