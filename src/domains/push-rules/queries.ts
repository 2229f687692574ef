import { sql } from 'kysely';
import type { Container, ContainerAddress, ContainerKind } from '#domains/planning/container.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import type { PushRule } from './model.ts';
import { getPushRuleContainer } from './policy.ts';

const OWNERS = { group: 'namespace_id', project: 'project_id' } as const;

/** Returns the owner column of `push_rules` and its value. */
export const ownerOf = (container: Container) =>
  ({
    column: OWNERS[container.kind],
    id: container.kind === 'group' ? container.group.id : container.project.id,
  }) as const;

/**
 * Returns the rule of the group or project itself, or null.
 *
 * @throws DomainError `not_found` (Group, Project), `forbidden`
 */
export const findPushRule = async (ctx: Context, at: ContainerAddress): Promise<PushRule | null> => {
  const { column, id } = ownerOf(await getPushRuleContainer(ctx, at));
  const rule = await ctx.db.selectFrom('push_rules').selectAll().where(column, '=', id).executeTakeFirst();
  return rule ?? null;
};

/**
 * Returns the rule of the group or project itself. @throws DomainError `not_found` (Group, Project; Push Rule if none
 * is set), `forbidden`
 */
export const getPushRule = async (ctx: Context, at: ContainerAddress): Promise<PushRule> => {
  const rule = await findPushRule(ctx, at);
  if (!rule) throw notFound('Push Rule');
  return rule;
};

/** Returns the rules of these groups or projects by their ids. The caller checks permissions. */
export const pushRulesOf =
  (kind: ContainerKind) =>
  async (ctx: Context, ids: readonly number[]): Promise<ReadonlyMap<number, PushRule>> => {
    const column = OWNERS[kind];
    const rows = await ctx.db
      .selectFrom('push_rules')
      .selectAll()
      .where(sql<boolean>`${sql.ref(column)} = any (${ids}::bigint[])`)
      .execute();
    return new Map(rows.map((row) => [row[column] ?? 0, row]));
  };

/**
 * Returns the rule that applies to pushes to the project: its own, or that of the nearest group above; null if none.
 */
export const governingRule = async (
  ctx: Pick<Context, 'db'>,
  { id, namespace }: Pick<ProjectRow, 'id' | 'namespace'>,
): Promise<PushRule | null> => {
  const above = namespace.traversal_ids;
  const { rows } = await sql<PushRule>`
    select * from push_rules where project_id = ${id} or namespace_id = any (${above}::bigint[])
    order by project_id nulls last, array_position(${above}::bigint[], namespace_id) desc limit 1`.execute(ctx.db);
  return rows[0] ?? null;
};
