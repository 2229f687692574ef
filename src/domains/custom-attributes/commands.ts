import { sql } from 'kysely';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { notFound, requireValid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { customAttributeDeleted, customAttributeSet } from './events.ts';
import { type CustomAttribute, MAX_LENGTH, OWNERS, type OwnerKind } from './model.ts';

/**
 * Creates or replaces a custom attribute of a user, group or project. Administrators only.
 *
 * @throws `invalid` by `key` and `value`, `not_found` when the owner has been deleted
 */
export const setCustomAttribute = async (
  ctx: Context,
  kind: OwnerKind,
  id: number,
  { key, value }: CustomAttribute,
): Promise<CustomAttribute> => {
  requireAdministrator(ctx);
  const problems = { key: problemsOf(key), value: problemsOf(value) };
  const errors = Object.fromEntries(Object.entries(problems).filter(([, found]) => found.length > 0));
  requireValid(errors);
  const { column, table, subject } = OWNERS[kind];
  await ctx.transaction(async (tx) => {
    const owner = sql.ref(column);
    const { numAffectedRows } = await sql`
      insert into custom_attributes (${owner}, key, value)
        select id, ${key}, ${value} from ${sql.table(table)} where id = ${id} for key share
      on conflict (${owner}, key) where ${owner} is not null do update set value = excluded.value`.execute(tx.db);
    if (numAffectedRows === 0n) throw notFound(subject);
    tx.emit(customAttributeSet, { subject: { type: subject, id }, payload: { key } });
  });
  return { key, value };
};

/** Deletes a custom attribute. Administrators only. @throws `not_found` (Custom Attribute) */
export const deleteCustomAttribute = async (ctx: Context, kind: OwnerKind, id: number, key: string): Promise<void> => {
  requireAdministrator(ctx);
  const { column, subject } = OWNERS[kind];
  await ctx.transaction(async (tx) => {
    const { numDeletedRows } = await tx.db
      .deleteFrom('custom_attributes')
      .where(column, '=', id)
      .where('key', '=', key)
      .executeTakeFirst();
    if (numDeletedRows === 0n) throw notFound('Custom Attribute');
    tx.emit(customAttributeDeleted, { subject: { type: subject, id }, payload: { key } });
  });
};

const problemsOf = (text: string): string[] => {
  if (text.trim() === '') return ["can't be blank"];
  return isLongerThan(text, MAX_LENGTH) ? [tooLong(MAX_LENGTH)] : [];
};
