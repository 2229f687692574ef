import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { type CustomAttribute, OWNERS, type OwnerKind } from './model.ts';
import { requireAdministrator } from './policy.ts';

/** The custom attributes of the users, groups or projects with these ids, by id and in the order of their keys. Administrators only. */
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

/** All of one. Administrators only. */
export const listCustomAttributes = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: OwnerKind,
  id: number,
): Promise<CustomAttribute[]> => (await customAttributesByIds(ctx, kind, [id])).get(id) ?? [];

/** One of them. Administrators only; throws `not_found` (Custom Attribute). */
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
 * Whether the user, group or project `id` has every one of the attributes with just that value. `wanted` is a JSON object
 * of texts (or the slot for one): one statement serves whatever is asked for.
 */
export const hasCustomAttributes = (kind: OwnerKind, id: RawBuilder<unknown>, wanted: unknown): RawBuilder<boolean> => {
  const owner = sql.ref(`c.${OWNERS[kind].column}`);
  return sql<boolean>`${id} in (
    select ${owner} from custom_attributes c
    join jsonb_each_text(${wanted}::jsonb) w on w.key = c.key and w.value = c.value
    where ${owner} is not null group by ${owner}
    having count(*) = (select count(*) from jsonb_object_keys(${wanted}::jsonb)))`;
};

/** Whether there is a user, group or project of this id. Administrators only. */
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
