import { type RawBuilder, type Selectable, sql } from 'kysely';
import { GUEST, OWNER, type Visibility, visibilityLevel } from '#domains/access/model.ts';
import { actorShape, actorTemplate, namespaceLevel, namespaceReach, namespacesOf } from '#domains/access/policy.ts';
import { granted, NAMESPACE_GRANTS, placesSharedWith } from '#domains/access/roles.ts';
import { hasCustomAttributes } from '#domains/custom-attributes/queries.ts';
import type { Actor, Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { CompiledStatements, runCompiled, type SlotValues, slot } from '#platform/db/compiled.ts';
import { and } from '#platform/db/conditions.ts';
import { countUnlessLarge } from '#platform/db/large-lists.ts';
import { containing, containsInParts, lookupOf } from '#platform/db/like.ts';
import { type List, unlessBadCursor, WALKED, type Window } from '#platform/db/list.ts';
import { createRowCache, type RowVersion, versionOf } from '#platform/db/row-cache.ts';
import type { Namespaces } from '#platform/db/tables.ts';
import { betweenCursors, limitTo, sorted, windowShape, windowValues } from '#platform/db/windows.ts';
import type { SortDirection } from '#platform/paging.ts';
import { BY_NAME, type GroupRow, NAME_KEY } from './queries.ts';

/** Filters for lists of groups (specification 3 §4.1). */
export interface GroupFilter {
  readonly search?: string | undefined;
  /** Search only the last part of the path (lists of subgroups). */
  readonly searchPaths?: boolean | undefined;
  readonly ids?: readonly number[] | undefined;
  readonly skipIds?: readonly number[] | undefined;
  /** All groups that the caller can see, not only those where they hold a role. Default for administrators. */
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
  /** Administrators only. The group has all of these attributes with these values. */
  readonly customAttributes?: Readonly<Record<string, string>> | undefined;
  readonly markedForDeletionOn?: string | undefined;
  readonly orderBy?: GroupOrder | undefined;
  readonly sort?: SortDirection | undefined;
}

export const GROUP_ORDERS = ['name', 'path', 'id', 'similarity'] as const;
type GroupOrder = (typeof GROUP_ORDERS)[number];

interface FoundGroup extends RowVersion {
  readonly id: number;
  readonly access_level: number;
  /** The value that the list is sorted by before the id. Absent if the id alone decides. */
  readonly sort_key?: string | number;
  /** The number of all matches, if the page was cut out of them. */
  readonly total?: number;
}

interface ListedGroup extends GroupRow {
  readonly sort_key?: string | number;
}

/** The columns of groups by version. A list reads only what it needs to find each row. */
const withColumns = createRowCache<Selectable<Namespaces>>('namespaces', sql`namespaces.*`);

/** Lists the groups that match the filter and that the caller can see, by name unless the filter sets another order. */
export const listGroups = (ctx: Context, given: GroupFilter = {}): List<GroupRow> => {
  const filter = { ...given, search: given.search?.trim() || undefined };
  const { actor } = ctx;
  const order = filter.orderBy === 'similarity' && !filter.search ? 'name' : (filter.orderBy ?? 'name');
  // Similarity has a fixed direction, with and without a search.
  const direction = filter.orderBy === 'similarity' ? (filter.search ? 'desc' : 'asc') : (filter.sort ?? 'asc');
  const values = valuesOf(filter);
  const shape = `${actorShape(actor)}|${filterShape(filter)}`;
  let total: number | null = null;
  const read = (window: Window, way: Way) => {
    const statement = statements.get(ctx, `${way}|${shape}|${order}|${direction}|${windowShape(window)}`, () =>
      pageStatement(actorTemplate(actor), filter, order, direction, window, way),
    );
    return runCompiled<FoundGroup>(ctx, statement, {
      ...values,
      ...windowValues(window),
    });
  };
  return {
    rows: (window) =>
      unlessBadCursor(window, async () => {
        const [first, second] = waysOf(actor, filter, order);
        let rows = await read(window, first);
        if (second && rows.length < window.limit) rows = await read(window, second);
        total = rows[0]?.total ?? null;
        return withColumns(ctx, rows);
      }),
    count: async (atMost) => {
      if (total !== null) return Math.min(total, atMost + 1);
      return countUnlessLarge(ctx, `groups|${shape}|${actor.userId}|${JSON.stringify(filter)}`, atMost, async () => {
        const statement = statements.get(ctx, `count|${shape}`, () => countStatement(actorTemplate(actor), filter));
        const [row] = await runCompiled<{ count: number }>(ctx, statement, { ...values, at_most: atMost + 1 });
        return row?.count ?? 0;
      });
    },
    cursorOf: ({ id, sort_key }: ListedGroup) => (order === 'id' ? [id] : [sort_key ?? null, id]),
  };
};

/** Lists the groups below each of many groups by name: all of them, or direct children only. */
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
    BY_NAME,
    'asc',
  );

/** Lists the groups that are shared with each of many groups, by name. */
export const listGroupsSharedWith = (ctx: Context, filter: GroupFilter): BatchedList<GroupRow> =>
  batchedListOf(
    ctx.db,
    (groupId) => matchingGroups(ctx, { ...filter, allAvailable: true }).where(isSharedWith(groupId)),
    BY_NAME,
    'asc',
  );

/** Lists the groups whose direct member each of many users is, as far as the caller can see them, by name. */
export const listGroupsOfUsers = (ctx: Context, filter: Pick<GroupFilter, 'search'>): BatchedList<GroupRow> =>
  batchedListOf(
    ctx.db,
    (userId) =>
      matchingGroups(ctx, { ...filter, allAvailable: true }).where(
        sql<boolean>`namespaces.id in (${granted(MEMBERSHIPS, MEMBERSHIPS.place, { user: userId })})`,
      ),
    BY_NAME,
    'asc',
  );

const { membership: MEMBERSHIPS } = NAMESPACE_GRANTS;

const matchingGroups = (ctx: Context, filter: GroupFilter) => {
  const values = valuesOf(filter);
  const all = narrowed(ctx.actor, filter, (name) => values[name]);
  return ctx.db
    .selectFrom('namespaces')
    .selectAll('namespaces')
    .select([namespaceLevel(ctx.actor, sql.ref('namespaces.id')).as('access_level'), NAME_KEY.as('name_key')])
    .where(sql<boolean>`${sql.join(all, sql` and `)}`)
    .where(
      sql<boolean>`(${sql.join(
        reachOf(ctx.actor, filter, (name) => values[name]),
        sql` or `,
      )})`,
    );
};

const statements = new CompiledStatements();

/** How a page is read: along an index of the order; the same but searched only so far; or cut out of all matches. */
type Way = 'ordered' | 'walked' | 'whole';

/** Returns the way to read a page, and perhaps another to take if that finds no full page. */
const waysOf = (actor: Actor, filter: GroupFilter, order: GroupOrder): readonly [Way, Way?] => {
  if (order === 'similarity' || isByRole(actor, filter)) return ['whole'];
  if (filter.search === undefined) return ['ordered'];
  return isPath(filter) ? ['whole'] : ['walked', 'whole'];
};

/** A search term with a slash is a path in the tree. */
const isPath = ({ search, searchPaths }: GroupFilter): boolean => !!search?.includes('/') && !searchPaths;

/**
 * Builds the statement for one page. If the caller reaches groups in several ways, each way is read separately, in
 * order and limited to the page: no single index returns all of them in order. If no index returns the rows in order,
 * all are read, with the total.
 */
const pageStatement = (
  actor: Actor,
  filter: GroupFilter,
  order: GroupOrder,
  direction: SortDirection,
  window: Window,
  way: Way,
): RawBuilder<unknown> => {
  const key = keys[order];
  const id = sql`namespaces.id`;
  const ascending = direction === 'asc';
  const ordered = (by: RawBuilder<unknown> | null) => sorted(by, id, ascending !== (window.backwards ?? false));
  const cursors = (by: RawBuilder<unknown> | null) => betweenCursors(ascending, window, by, id);
  const level = sql`${namespaceLevel(actor, sql.ref('namespaces.id'))} as access_level`;
  const versioned = sql`namespaces.id, ${versionOf('namespaces')}${key === null ? sql`` : sql`, ${key} as sort_key`}`;
  const found = sql`namespaces.id, namespaces.row_xmin, namespaces.row_ctid${key === null ? sql`` : sql`, namespaces.sort_key`}, ${level}`;
  const outer = key === null ? null : sql.ref('namespaces.sort_key');
  const limit = limitTo(window);
  const reach = reachOf(actor, filter, slot);
  const matching = and(narrowed(actor, way === 'walked' ? { ...filter, search: undefined } : filter, slot));
  const select = (reached: RawBuilder<unknown>) =>
    sql`select ${versioned}, namespaces.name, namespaces.path from namespaces where ${reached} and ${matching}`;
  if (way === 'whole') {
    return sql`with found as materialized (${sql.join(reach.map(select), sql` union all `)})
      select ${found}, (select count(*) from found) as total from found namespaces where ${and(cursors(outer))} ${ordered(outer)} ${limit}`;
  }
  const [first = sql`false`, ...others] = reach;
  const near = and([matching, ...cursors(key)]);
  if (others.length === 0 && way === 'ordered')
    return sql`select ${versioned}, ${level} from namespaces where ${first} and ${near} ${ordered(key)} ${limit}`;
  const walked = sql`limit ${sql.lit(WALKED)}`;
  const page = window.offset ? sql`limit ${sql.lit(window.limit)} + ${slot('offset')}::bigint` : limit;
  const upTo = way === 'walked' ? walked : page;
  const arms = reach.map((each) => sql`(${select(each)} and ${and(cursors(key))} ${ordered(key)} ${upTo})`);
  const all = sql`(${sql.join(arms, sql` union all `)}) namespaces`;
  if (way === 'ordered') return sql`select ${found} from ${all} ${ordered(outer)} ${limit}`;
  return sql`select ${found} from (select * from ${all} ${ordered(outer)} ${walked}) namespaces
    where ${matches(filter, slot)} ${ordered(outer)} ${limit}`;
};

const countStatement = (actor: Actor, filter: GroupFilter): RawBuilder<unknown> => {
  const matching = and(narrowed(actor, filter, slot));
  const arms = reachOf(actor, filter, slot).map(
    (reach) => sql`select 1 from namespaces where ${reach} and ${matching}`,
  );
  return sql`select count(*) as count from (${sql.join(arms, sql` union all `)} limit ${slot('at_most')}::bigint) counted`;
};

const keys: Readonly<Record<GroupOrder, RawBuilder<unknown> | null>> = {
  id: null,
  name: NAME_KEY,
  path: sql`lower(namespaces.path)`,
  similarity: sql`greatest(similarity(namespaces.name, ${slot('search')}::text),
    similarity(namespaces.path, ${slot('search')}::text))::float8`,
};

/** Places a filter value: in a slot of a cached statement, or as the value itself. */
type Put = (name: string) => unknown;

/** Returns true if the list has only groups where the caller holds a role. */
const isByRole = (actor: Actor, filter: GroupFilter): boolean =>
  leastOf(filter) > 0 || (actor.userId !== null && !(filter.allAvailable ?? actor.isAdmin));

const leastOf = ({ owned, minAccessLevel }: GroupFilter): number => Math.max(owned ? OWNER : 0, minAccessLevel ?? 0);

/** Returns the ways in which the caller reaches groups of this list. The ways do not overlap. */
const reachOf = (actor: Actor, filter: GroupFilter, put: Put): readonly RawBuilder<boolean>[] => {
  if (!isByRole(actor, filter)) return namespaceReach(actor);
  if (actor.userId === null) return [sql<boolean>`false`];
  return [sql<boolean>`namespaces.id in ${namespacesOf(actor, sql`${put('least')}::int`)}`];
};

const narrowed = (actor: Actor, filter: GroupFilter, put: Put): RawBuilder<unknown>[] => {
  const all: RawBuilder<unknown>[] = [sql`namespaces.kind = 'group'`];
  if (filter.search) all.push(matches(filter, put));
  if (filter.ids) all.push(sql`namespaces.id = any (${put('ids')}::bigint[])`);
  if (filter.skipIds?.length) all.push(sql`namespaces.id <> all (${put('skipIds')}::bigint[])`);
  if (filter.visibility) all.push(sql`namespaces.visibility_level = ${sql.lit(visibilityLevel(filter.visibility))}`);
  if (filter.topLevelOnly) all.push(sql`namespaces.parent_id is null`);
  if (filter.parentId !== undefined) all.push(sql`namespaces.parent_id = ${put('parentId')}::bigint`);
  if (filter.ancestorId !== undefined) {
    all.push(sql`namespaces.traversal_ids @> array[${put('ancestorId')}::bigint]`);
    all.push(sql`namespaces.id <> ${put('ancestorId')}::bigint`);
  }
  if (filter.sharedWithId !== undefined) all.push(isSharedWith(sql`${put('sharedWithId')}::bigint`));
  if (actor.isAdmin && filter.repositoryStorage !== undefined) {
    all.push(sql`namespaces.repository_storage = ${put('repositoryStorage')}`);
  }
  if (actor.isAdmin && filter.customAttributes !== undefined) {
    all.push(hasCustomAttributes('groups', sql.ref('namespaces.id'), put('attributes')));
  }
  if (filter.markedForDeletionOn !== undefined) {
    all.push(sql`namespaces.marked_for_deletion_on = ${put('markedForDeletionOn')}::date`);
  }
  return all;
};

const isSharedWith = (groupId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`namespaces.id in (${placesSharedWith('namespace', groupId)})`;

const matches = (filter: GroupFilter, put: Put): RawBuilder<unknown> => {
  const pattern = sql`${put('pattern')}::text`;
  if (isPath(filter)) return sql`namespaces.full_path ilike ${pattern}`;
  const inColumn = (name: string) => {
    const column = sql.ref(`namespaces.${name}`);
    return isInParts(filter) ? containsInParts(column, put) : sql`${column} ilike ${pattern}`;
  };
  return filter.searchPaths ? inColumn('path') : sql`(${inColumn('name')} or ${inColumn('path')})`;
};

const isInParts = ({ search }: GroupFilter): boolean => !!search && !lookupOf(search.trim()).isWhole;

/** Returns a key for the parts of the filter that determine the statement's text. */
const filterShape = (filter: GroupFilter): string => {
  let shape = `${filter.search?.includes('/') ? '/' : ''}${isInParts(filter) ? 'parts;' : ''}`;
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined || value === null) continue;
    if (name === 'skipIds') shape += filter.skipIds?.length ? 'skipIds;' : '';
    else shape += typeof value === 'boolean' || name === 'visibility' ? `${name}=${String(value)};` : `${name};`;
  }
  return shape;
};

const valuesOf = (filter: GroupFilter): SlotValues => {
  const search = filter.search?.trim();
  return {
    ...filter,
    least: Math.max(leastOf(filter), GUEST),
    ...(search ? { pattern: containing(search), ...lookupOf(search) } : {}),
    attributes: filter.customAttributes === undefined ? null : JSON.stringify(filter.customAttributes),
  };
};
