import { sql } from 'kysely';
import type { Actor, Context } from '#platform/context.ts';
import { namespaceLevel, projectLevel } from './policy.ts';

/** Of the given users, those who hold at least `least` on the project: for approvers, assignees, and live events. */
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

/** Of the given users, those who hold at least `least` on the namespace. */
export const usersWithNamespaceLevel = async (
  ctx: Context,
  namespaceId: number,
  userIds: readonly number[],
  least: number,
): Promise<ReadonlySet<number>> => {
  const rows = await ctx.db
    .selectFrom('namespace_access')
    .select('user_id')
    .distinct()
    .where('namespace_id', '=', namespaceId)
    .where(sql<boolean>`user_id = any (${userIds}::bigint[])`)
    .where('access_level', '>=', least)
    .where(sql<boolean>`expires_at > current_date`)
    .execute();
  return new Set(rows.map((row) => row.user_id));
};

/** The levels that somebody holds on these projects; none where he holds none. */
export const levelsOnProjects = async (
  ctx: Context,
  actor: Actor,
  projectIds: readonly number[],
): Promise<ReadonlyMap<number, number>> => {
  if (projectIds.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('projects')
    .select(['id', projectLevel(actor).as('level')])
    .where(sql<boolean>`id = any (${projectIds}::bigint[])`)
    .execute();
  return new Map(rows.map(({ id, level }) => [id, level]));
};

/** The same on these namespaces. */
export const levelsOnNamespaces = async (
  ctx: Context,
  actor: Actor,
  namespaceIds: readonly number[],
): Promise<ReadonlyMap<number, number>> => {
  if (namespaceIds.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('namespaces')
    .select(['id', namespaceLevel(actor, sql.ref('namespaces.id')).as('level')])
    .where(sql<boolean>`id = any (${namespaceIds}::bigint[])`)
    .execute();
  return new Map(rows.map(({ id, level }) => [id, level]));
};
