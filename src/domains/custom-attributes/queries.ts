import { type RawBuilder, sql } from 'kysely';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { type CustomAttribute, OWNERS, type OwnerKind } from './model.ts';

/** Returns the custom attributes by owner id, each list in order of key. Administrators only. */
export const customAttributesByIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: OwnerKind,
  ids: readonly number[],
): Promise<Map<number, CustomAttribute[]>> => {
  requireAdministrator(ctx);
  const byId = new Map<number, CustomAttribute[]>(ids.map((id) => [id, []]));
  if (ids.length === 0) return byId;
  const owner = sql.ref(OWNERS[kind].column);
  const { rows } = await sql<CustomAttribute & { owner_id: number }>`
    select ${owner} as owner_id, key, value from custom_attributes
    where ${owner} = any (${ids}::bigint[]) order by key`.execute(ctx.db);
  for (const { owner_id, key, value } of rows) byId.get(owner_id)?.push({ key, value });
  return byId;
};

/** Returns all custom attributes of one owner. Administrators only. */
export const listCustomAttributes = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: OwnerKind,
  id: number,
): Promise<CustomAttribute[]> => (await customAttributesByIds(ctx, kind, [id])).get(id) ?? [];

/** Returns one custom attribute. Administrators only. @throws `not_found` (Custom Attribute) */
export const getCustomAttribute = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: OwnerKind,
  id: number,
  key: string,
): Promise<CustomAttribute> => {
  requireAdministrator(ctx);
  const attribute = await ctx.db
    .selectFrom('custom_attributes')
    .select(['key', 'value'])
    .where(OWNERS[kind].column, '=', id)
    .where('key', '=', key)
    .executeTakeFirst();
  if (!attribute) throw notFound('Custom Attribute');
  return attribute;
};

/**
 * Whether the user, group or project `id` has all of the attributes with exactly these values. `wanted` is a JSON
 * object of strings (or a parameter for one), so that one statement serves every filter.
 */
export const hasCustomAttributes = (kind: OwnerKind, id: RawBuilder<unknown>, wanted: unknown): RawBuilder<boolean> => {
  const owner = sql.ref(`c.${OWNERS[kind].column}`);
  return sql<boolean>`${id} in (
    select ${owner} from custom_attributes c
    join jsonb_each_text(${wanted}::jsonb) w on w.key = c.key and w.value = c.value
    where ${owner} is not null group by ${owner}
    having count(*) = (select count(*) from jsonb_object_keys(${wanted}::jsonb)))`;
};

/** Whether a user, group or project with this id exists. Administrators only. */
export const ownerExists = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: OwnerKind,
  id: number,
): Promise<boolean> => {
  requireAdministrator(ctx);
  const isGroup = kind === 'groups' ? sql`and kind = 'group'` : sql``;
  const { rows } = await sql`select 1 from ${sql.table(OWNERS[kind].table)} where id = ${id} ${isGroup}`.execute(
    ctx.db,
  );
  return rows.length > 0;
};
