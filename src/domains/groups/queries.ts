import { type RawBuilder, type Selectable, sql } from 'kysely';
import { GUEST, OWNER, type Visibility, visibilityLevel } from '#domains/access/model.ts';
import { namespaceIsVisible, namespaceLevel, namespacesOf } from '#domains/access/policy.ts';
import { hasCustomAttributes } from '#domains/custom-attributes/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Namespaces } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { SortDirection } from '#platform/paging.ts';

/** A group or personal namespace, with the caller's own level on it. */
export interface NamespaceRow extends Selectable<Namespaces> {
  /** The caller's highest level here, 0 when none; administrators have Owner. */
  readonly access_level: number;
}

/** A namespace whose `kind` is `group`. */
export type GroupRow = NamespaceRow;

/** What lists of groups can be narrowed by (specification 3 §4.1). */
export interface GroupFilter {
  readonly search?: string | undefined;
  /** Search the last part of the path alone (lists of subgroups). */
  readonly searchPaths?: boolean | undefined;
  readonly ids?: readonly number[] | undefined;
  readonly skipIds?: readonly number[] | undefined;
  /** All that the caller may see, not only those where he holds a role. Administrators see all by default. */
  readonly allAvailable?: boolean | undefined;
  readonly visibility?: Visibility | undefined;
  readonly owned?: boolean | undefined;
  readonly minAccessLevel?: number | undefined;
  readonly topLevelOnly?: boolean | undefined;
  readonly parentId?: number | undefined;
  /** Below this group, at any depth. */
  readonly ancestorId?: number | undefined;
  /** Shared with this group. */
  readonly sharedWithId?: number | undefined;
  /** Administrators only. */
  readonly repositoryStorage?: string | undefined;
  readonly customAttributes?: Readonly<Record<string, string>> | undefined;
  readonly markedForDeletionOn?: string | undefined;
  readonly orderBy?: GroupOrder | undefined;
  readonly sort?: SortDirection | undefined;
}

export const GROUP_ORDERS = ['name', 'path', 'id', 'similarity'] as const;
type GroupOrder = (typeof GROUP_ORDERS)[number];

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
    .where('namespaces.kind', '=', 'user')
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

/** The groups that the caller may see and the filter lets through. By name, unless it says otherwise. */
export const listGroups = (ctx: Context, filter: GroupFilter = {}): List<GroupRow> => {
  const query = matchingGroups(ctx, filter);
  const search = filter.search?.trim();
  const order = filter.orderBy ?? 'name';
  if (order === 'similarity' && search) {
    const relevance = sql<number>`greatest(similarity(namespaces.name, ${search}), similarity(namespaces.path, ${search}))::float8`;
    const ranked = query.select(relevance.as('relevance'));
    return listOf(ctx.db, ranked, [{ by: relevance, of: (row) => row.relevance }, byId], 'desc');
  }
  const direction = order === 'similarity' ? 'asc' : (filter.sort ?? 'asc');
  return listOf(ctx.db, query, sortKeys[order], direction);
};

/** The groups below each of many, by name: all of them, or those directly below. */
export const listGroupsBelow = (
  ctx: Context,
  filter: GroupFilter & { readonly directly?: boolean | undefined },
): BatchedList<GroupRow> =>
  batchedListOf(
    ctx.db,
    (parentId) =>
      filter.directly
        ? matchingGroups(ctx, filter).where('namespaces.parent_id', '=', parentId)
        : matchingGroups(ctx, filter)
            .where(sql<boolean>`namespaces.traversal_ids @> array[${parentId}]`)
            .where('namespaces.id', '<>', parentId),
    sortKeys.name,
    'asc',
  );

/** The groups that are shared with each of many, by name. */
export const listGroupsSharedWith = (ctx: Context, filter: GroupFilter): BatchedList<GroupRow> =>
  batchedListOf(
    ctx.db,
    (groupId) => matchingGroups(ctx, { ...filter, allAvailable: true }).where(isSharedWith(groupId)),
    sortKeys.name,
    'asc',
  );

const isSharedWith = (groupId: RawBuilder<unknown>): RawBuilder<boolean> => sql<boolean>`namespaces.id in (
  select s.namespace_id from namespace_shares s
  where s.shared_with_id = ${groupId} and (s.expires_at is null or s.expires_at > current_date))`;

const matchingGroups = (ctx: Context, filter: GroupFilter) => {
  const { actor } = ctx;
  let query = groupQuery(ctx);
  const search = filter.search?.trim();
  if (search) query = query.where(matches(search, filter.searchPaths ?? false));
  if (filter.ids) query = query.where(sql<boolean>`namespaces.id = any (${filter.ids}::bigint[])`);
  if (filter.skipIds?.length) query = query.where(sql<boolean>`namespaces.id <> all (${filter.skipIds}::bigint[])`);
  if (filter.visibility) query = query.where('namespaces.visibility_level', '=', visibilityLevel(filter.visibility));
  if (filter.topLevelOnly) query = query.where('namespaces.parent_id', 'is', null);
  if (filter.parentId !== undefined) query = query.where('namespaces.parent_id', '=', filter.parentId);
  if (filter.ancestorId !== undefined) {
    query = query
      .where(sql<boolean>`namespaces.traversal_ids @> array[${filter.ancestorId}::bigint]`)
      .where('namespaces.id', '<>', filter.ancestorId);
  }
  if (filter.sharedWithId !== undefined) query = query.where(isSharedWith(sql`${filter.sharedWithId}::bigint`));
  if (actor.isAdmin && filter.repositoryStorage !== undefined) {
    query = query.where('namespaces.repository_storage', '=', filter.repositoryStorage);
  }
  if (actor.isAdmin && filter.customAttributes !== undefined) {
    const wanted = JSON.stringify(filter.customAttributes);
    query = query.where(hasCustomAttributes('groups', sql.ref('namespaces.id'), wanted));
  }
  if (filter.markedForDeletionOn !== undefined) {
    query = query.where(sql<boolean>`namespaces.marked_for_deletion_on = ${filter.markedForDeletionOn}::date`);
  }
  const least = Math.max(filter.owned ? OWNER : 0, filter.minAccessLevel ?? 0);
  const onlyMine = least > 0 || !(filter.allAvailable ?? actor.isAdmin);
  if (onlyMine && (actor.userId !== null || least > 0)) {
    query = query.where(
      actor.userId === null
        ? sql<boolean>`false`
        : sql<boolean>`namespaces.id in ${namespacesOf(actor.userId, Math.max(least, GUEST))}`,
    );
  }
  return query;
};

const byId: SortKey<GroupRow> = { by: sql.ref('namespaces.id'), of: (row) => row.id };
const byName: SortKey<GroupRow> = { by: sql.ref('namespaces.name'), of: (row) => row.name };
const sortKeys = {
  id: [byId],
  name: [byName, byId],
  path: [{ by: sql.ref('namespaces.path'), of: (row) => row.path }, byId],
  similarity: [byName, byId],
} satisfies Record<GroupOrder, readonly SortKey<GroupRow>[]>;

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

const matches = (search: string, pathsOnly: boolean): RawBuilder<boolean> => {
  const pattern = `%${search.replace(/[\\%_]/g, '\\$&')}%`;
  if (pathsOnly) return sql<boolean>`namespaces.path ilike ${pattern}`;
  // A search with a slash names a place in the tree.
  if (search.includes('/')) return sql<boolean>`namespaces.full_path ilike ${pattern}`;
  return sql<boolean>`(namespaces.name ilike ${pattern} or namespaces.path ilike ${pattern})`;
};
