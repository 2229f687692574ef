import { type RawBuilder, type Selectable, sql } from 'kysely';
import { namespaceIsVisible, namespaceLevel } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import type { SortKey, TermSearch } from '#platform/db/list.ts';
import type { Namespaces } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** A group or personal namespace, with the caller's own level on it. */
export interface NamespaceRow extends Selectable<Namespaces> {
  /** The caller's highest level here; 0 if none. Owner for administrators. */
  readonly access_level: number;
  /** In lists: identifies this version of the row (platform/db/row-cache.ts). */
  readonly remembered?: object;
}

/** A namespace whose `kind` is `group`. */
export type GroupRow = NamespaceRow;

/** Returns the namespace, or null if the caller cannot see one. */
export const findNamespace = async (ctx: Context, idOrPath: IdOrPath): Promise<NamespaceRow | null> =>
  (await namespaceQuery(ctx).where(isNamed(idOrPath)).executeTakeFirst()) ?? null;

/** Returns the namespace. @throws DomainError `not_found` (Namespace) */
export const getNamespace = async (ctx: Context, idOrPath: IdOrPath): Promise<NamespaceRow> => {
  const namespace = await findNamespace(ctx, idOrPath);
  if (!namespace) throw notFound('Namespace');
  return namespace;
};

/** Returns the group, or null if the caller cannot see one. */
export const findGroup = async (ctx: Context, idOrPath: IdOrPath): Promise<GroupRow | null> =>
  (await groupQuery(ctx).where(isNamed(idOrPath)).executeTakeFirst()) ?? null;

/** Returns the group. @throws DomainError `not_found` (Group), also if the caller cannot see it */
export const getGroup = async (ctx: Context, idOrPath: IdOrPath): Promise<GroupRow> => {
  const group = await findGroup(ctx, idOrPath);
  if (!group) throw notFound('Group');
  return group;
};

/** Returns those namespaces that the caller can see, by id. */
export const namespacesByIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, NamespaceRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await namespaceQuery(ctx).where(sql<boolean>`namespaces.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns those groups with these full paths, compared case-insensitively, that the caller can see. */
export const groupsByPaths = async (ctx: Context, paths: readonly string[]): Promise<GroupRow[]> => {
  if (paths.length === 0) return [];
  const lower = paths.map((path) => path.toLowerCase());
  return groupQuery(ctx).where(sql<boolean>`lower(namespaces.full_path) = any (${lower}::text[])`).execute();
};

/** Returns the personal namespaces of these users by user id, if the caller can see them. */
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

/** Returns the id of the group that had this path before a rename or move, if the caller can see it. */
export const findGroupByOldPath = async (ctx: Context, path: string): Promise<number | null> => {
  const row = await groupQuery(ctx)
    .where(sql<boolean>`namespaces.id = (select r.namespace_id from redirects r where r.path = lower(${path}))`)
    .executeTakeFirst();
  return row?.id ?? null;
};

/** Selects the namespaces that the caller can see, for lists of this domain. */
export const namespaceQuery = (ctx: Context) =>
  ctx.db
    .selectFrom('namespaces')
    .selectAll('namespaces')
    .select(namespaceLevel(ctx.actor, sql.ref('namespaces.id')).as('access_level'))
    .where(namespaceIsVisible(ctx.actor));

/** The key of lists by name, as in lists of projects: upper and lower case are equal. */
export const NAME_KEY = sql<string>`lower(namespaces.name)`;

interface NamedGroup extends GroupRow {
  readonly name_key?: string;
}

/** Sorts groups by name. The query selects `NAME_KEY` as `name_key`. */
export const BY_NAME: readonly SortKey<NamedGroup>[] = [
  { by: NAME_KEY, of: ({ name_key }) => name_key ?? null },
  { by: sql.ref('namespaces.id'), of: ({ id }) => id },
];

/** How to find the namespaces that contain the term in their name or full path. */
export const namespacesContaining = (term: string): TermSearch => {
  const pattern = containing(term);
  const contains = (alias: string) =>
    sql<boolean>`(${sql.ref(`${alias}.name`)} ilike ${pattern} or ${sql.ref(`${alias}.full_path`)} ilike ${pattern})`;
  return {
    table: 'namespaces',
    contains: contains('namespaces'),
    found: sql<boolean>`namespaces.id = any (array(select n.id from namespaces n where ${contains('n')}))`,
  };
};

const groupQuery = (ctx: Context) => namespaceQuery(ctx).where('namespaces.kind', '=', sql.lit('group'));

const isNamed = (idOrPath: IdOrPath): RawBuilder<boolean> =>
  idOrPath.path === undefined
    ? sql<boolean>`namespaces.id = ${idOrPath.id}`
    : sql<boolean>`lower(namespaces.full_path) = lower(${idOrPath.path})`;
