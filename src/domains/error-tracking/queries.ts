import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import { type ClientKeyRow, DEFAULTS, type Settings } from './model.ts';
import { requireKeyScope } from './policy.ts';

/** @throws DomainError `not_found` (Project), `forbidden` below Maintainer */
export const getSettings = (ctx: Context, project: ProjectRow): Promise<Settings> => {
  requireAbility(ctx, project, 'admin_error_tracking');
  return readSettings(ctx, project.id);
};

/** The same without a check of rights. */
export const readSettings = async ({ db }: Pick<Context, 'db'>, projectId: number): Promise<Settings> =>
  (await db
    .selectFrom('error_tracking_settings')
    .select(['active', 'integrated'])
    .where('project_id', '=', projectId)
    .executeTakeFirst()) ?? DEFAULTS;

/** The same for many projects, by project. */
export const settingsByProjects = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Settings>> => {
  const rows = await db
    .selectFrom('error_tracking_settings')
    .select(['project_id', 'active', 'integrated'])
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .execute();
  const stored = new Map(rows.map(({ project_id, ...settings }) => [project_id, settings]));
  return new Map(ids.map((id) => [id, stored.get(id) ?? DEFAULTS]));
};

/**
 * Lists the client keys of the project by id (specification 1 §4.6).
 *
 * @throws DomainError `forbidden` below Maintainer, `not_found` also if the project stores no errors here
 */
export const listClientKeys = async (ctx: Context, project: ProjectRow): Promise<List<ClientKeyRow>> => {
  requireAbility(ctx, project, 'admin_error_tracking');
  requireIntegrated(await readSettings(ctx, project.id));
  return listOf(
    ctx.db,
    ctx.db.selectFrom('error_tracking_client_keys').select(clientKeyColumns).where('project_id', '=', project.id),
    [{ by: sql.ref('error_tracking_client_keys.id'), of: ({ id }) => id }],
    'asc',
  );
};

/**
 * Returns the client keys of many projects, by project and then by id. The caller checks the abilities.
 *
 * @throws DomainError `insufficient_scope` for tokens that may not read keys
 */
export const clientKeysByProjects = async (
  ctx: Pick<Context, 'actor' | 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly ClientKeyRow[]>> => {
  requireKeyScope(ctx);
  const rows = await ctx.db
    .selectFrom('error_tracking_client_keys')
    .select(clientKeyColumns)
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .orderBy('id')
    .execute();
  return Map.groupBy(rows, ({ project_id }) => project_id);
};

/** Keys are of no use where no errors are stored. @throws DomainError `not_found` */
export const requireIntegrated = ({ active, integrated }: Settings): void => {
  if (!active || !integrated) throw notFound('Integrated Error Tracking');
};

export const clientKeyColumns = ['id', 'project_id', 'sealed_key', 'created_by_id', 'created_at'] as const;
