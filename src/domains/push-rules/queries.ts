import { sql } from 'kysely';
import type { Place, PlaceKind } from '#domains/planning/place.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import type { PushRule } from './model.ts';
import { getPushRulePlace, type PushRulePlace } from './policy.ts';

const OWNERS = { group: 'namespace_id', project: 'project_id' } as const;

/** The column of `push_rules` that says whose a rule is, and what it holds. */
export const ownerOf = (place: Place) =>
  ({ column: OWNERS[place.kind], id: place.kind === 'group' ? place.group.id : place.project.id }) as const;

/**
 * The rule that was set on the group or project itself, or null.
 *
 * @throws DomainError `not_found` (Group, Project), `forbidden`
 */
export const findPushRule = async (ctx: Context, at: PushRulePlace): Promise<PushRule | null> => {
  const { column, id } = ownerOf(await getPushRulePlace(ctx, at));
  const rule = await ctx.db.selectFrom('push_rules').selectAll().where(column, '=', id).executeTakeFirst();
  return rule ?? null;
};

/** The same. @throws DomainError `not_found` (Group, Project; Push Rule when none is set), `forbidden` */
export const getPushRule = async (ctx: Context, at: PushRulePlace): Promise<PushRule> => {
  const rule = await findPushRule(ctx, at);
  if (!rule) throw notFound('Push Rule');
  return rule;
};

/** The rules set on these groups or projects, by their ids. For those that the caller may administer. */
export const pushRulesOf =
  (kind: PlaceKind) =>
  async (ctx: Context, ids: readonly number[]): Promise<ReadonlyMap<number, PushRule>> => {
    const column = OWNERS[kind];
    const rows = await ctx.db
      .selectFrom('push_rules')
      .selectAll()
      .where(sql<boolean>`${sql.ref(column)} = any (${ids}::bigint[])`)
      .execute();
    return new Map(rows.map((row) => [row[column] ?? 0, row]));
  };

/** The rule that governs pushes to the project: its own, else that of the nearest group above that has one, else null. */
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
