import { type RawBuilder, type Selectable, sql } from 'kysely';
import { namespaceIsVisible, namespaceLevel } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import type { Namespaces } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** A group or personal namespace, with the caller's own level on it. */
export interface NamespaceRow extends Selectable<Namespaces> {
  /** The caller's highest level here, 0 when none; administrators have Owner. */
  readonly access_level: number;
  /** In lists: what stands for this version of the row (platform/db/row-cache.ts). */
  readonly remembered?: object;
}

/** A namespace whose `kind` is `group`. */
export type GroupRow = NamespaceRow;

/** The namespace if there is one that the caller may know of, else null. */
export const findNamespace = async (ctx: Context, idOrPath: IdOrPath): Promise<NamespaceRow | null> =>
  (await namespaceQuery(ctx).where(isNamed(idOrPath)).executeTakeFirst()) ?? null;

/** The namespace. @throws DomainError `not_found` (Namespace) */
export const getNamespace = async (ctx: Context, idOrPath: IdOrPath): Promise<NamespaceRow> => {
  const namespace = await findNamespace(ctx, idOrPath);
  if (!namespace) throw notFound('Namespace');
  return namespace;
};

/** The group if there is one that the caller may know of, else null. */
export const findGroup = async (ctx: Context, idOrPath: IdOrPath): Promise<GroupRow | null> =>
  (await groupQuery(ctx).where(isNamed(idOrPath)).executeTakeFirst()) ?? null;

/** The group. @throws DomainError `not_found` (Group), also when the caller may not know of it */
export const getGroup = async (ctx: Context, idOrPath: IdOrPath): Promise<GroupRow> => {
  const group = await findGroup(ctx, idOrPath);
  if (!group) throw notFound('Group');
  return group;
};

/** Those of the namespaces that the caller may know of, by id. */
export const namespacesByIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, NamespaceRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await namespaceQuery(ctx).where(sql<boolean>`namespaces.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** The personal namespaces of these users, by user, as far as the caller may know of them. */
export const namespacesByOwnerIds = async (
  ctx: Context,
  ownerIds: readonly number[],
): Promise<ReadonlyMap<number, NamespaceRow & { readonly owner_id: number }>> => {
  if (ownerIds.length === 0) return new Map();
  const rows = await namespaceQuery(ctx)
    .where('namespaces.kind', '=', sql.lit('user'))
    .where(sql<boolean>`namespaces.owner_id = any (${ownerIds}::bigint[])`)
    .execute();
  return new Map(
    rows.flatMap((row) => (row.owner_id === null ? [] : [[row.owner_id, { ...row, owner_id: row.owner_id }]])),
  );
};

/** Whom a path belonged to before a rename or move: its id, if the caller may know of it. */
export const findGroupByOldPath = async (ctx: Context, path: string): Promise<number | null> => {
  const row = await groupQuery(ctx)
    .where(sql<boolean>`namespaces.id = (select r.namespace_id from redirects r where r.path = lower(${path}))`)
    .executeTakeFirst();
  return row?.id ?? null;
};

/** Namespaces that the caller may know of, for lists of this domain. */
export const namespaceQuery = (ctx: Context) =>
  ctx.db
    .selectFrom('namespaces')
    .selectAll('namespaces')
    .select(namespaceLevel(ctx.actor, sql.ref('namespaces.id')).as('access_level'))
    .where(namespaceIsVisible(ctx.actor));

const groupQuery = (ctx: Context) => namespaceQuery(ctx).where('namespaces.kind', '=', sql.lit('group'));

const isNamed = (idOrPath: IdOrPath): RawBuilder<boolean> =>
  idOrPath.path === undefined
    ? sql<boolean>`namespaces.id = ${idOrPath.id}`
    : sql<boolean>`lower(namespaces.full_path) = lower(${idOrPath.path})`;
