import { sql } from 'kysely';
import { type ContainerAddress, lockContainer, ownerColumns } from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import { notFound, requireUnchanged, requireValid, unprocessable } from '#platform/errors.ts';
import { pushRuleCreated, pushRuleDeleted, pushRuleUpdated } from './events.ts';
import { FLAG_NAMES, PATTERN_NAMES, type PushRule, type PushRuleAttributes } from './model.ts';
import { problemsOf } from './patterns.ts';
import { getPushRuleContainer, pushRuleScope } from './policy.ts';
import { ownerOf } from './queries.ts';

/**
 * Creates the push rule of a group or project that has none.
 *
 * @throws `not_found` (Group, Project), `forbidden`, `invalid` by attribute, `unprocessable` if it already has one
 */
export const createPushRule = async (
  ctx: Context,
  at: ContainerAddress,
  given: PushRuleAttributes,
): Promise<PushRule> => {
  const seen = await getPushRuleContainer(ctx, at);
  const columns = columnsOf(given);
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_push_rule');
    const rule = await tx.db
      .insertInto('push_rules')
      .values({ ...columns, ...ownerColumns(container) })
      .onConflict((conflict) => conflict.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (!rule) throw unprocessable(`The ${container.kind} has a push rule already`);
    tx.emit(pushRuleCreated, { ...pushRuleScope(container, rule.id), payload: described(rule) });
    return rule;
  });
};

/**
 * Changes the given attributes. @throws `not_found` (Group, Project, Push rule), `forbidden`, `invalid` by attribute
 */
export const updatePushRule = async (
  ctx: Context,
  at: ContainerAddress,
  given: PushRuleAttributes,
): Promise<PushRule> => {
  const seen = await getPushRuleContainer(ctx, at);
  const columns = columnsOf(given);
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_push_rule');
    const { column, id } = ownerOf(container);
    const before = await tx.db
      .selectFrom('push_rules')
      .selectAll()
      .where(column, '=', id)
      .forUpdate()
      .executeTakeFirst();
    if (!before) throw notFound('Push Rule');
    const after = { ...before, ...columns };
    const changed = [...FLAG_NAMES, ...PATTERN_NAMES, 'max_file_size' as const].filter(
      (name) => before[name] !== after[name],
    );
    if (changed.length === 0) return before;
    const rule = await tx.db
      .updateTable('push_rules')
      .set({ ...columns, updated_at: sql`now()` })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    tx.emit(pushRuleUpdated, { ...pushRuleScope(container, rule.id), payload: { ...described(rule), changed } });
    return rule;
  });
};

/** Deletes the rule. The rule of the nearest group above then applies, if there is one. @throws as `updatePushRule`, `modified` */
export const deletePushRule = async (
  ctx: Context,
  at: ContainerAddress,
  unchangedSince: Date | null = null,
): Promise<void> => {
  const seen = await getPushRuleContainer(ctx, at);
  await ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_push_rule');
    const { column, id } = ownerOf(container);
    const rule = await tx.db.deleteFrom('push_rules').where(column, '=', id).returningAll().executeTakeFirst();
    if (!rule) throw notFound('Push Rule');
    requireUnchanged(rule, unchangedSince);
    tx.emit(pushRuleDeleted, { ...pushRuleScope(container, rule.id), payload: described(rule) });
  });
};

const described = ({ id, namespace_id, project_id }: PushRule) => ({ id, namespace_id, project_id });

/** Returns the given attributes as columns. @throws `invalid` */
const columnsOf = (given: PushRuleAttributes) => {
  requireValid(problemsOf(given));
  const columns: { -readonly [K in keyof PushRuleAttributes]?: NonNullable<PushRuleAttributes[K]> } = {};
  for (const name of FLAG_NAMES) if (given[name] !== undefined) columns[name] = given[name];
  for (const name of PATTERN_NAMES) if (given[name] !== undefined) columns[name] = given[name] ?? '';
  if (given.max_file_size !== undefined) columns.max_file_size = given.max_file_size ?? 0;
  return columns;
};
