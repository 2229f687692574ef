import { type RawBuilder, sql } from 'kysely';
import { mergeRequestIsVisible } from '#domains/planning/visibility.ts';
import type { Actor } from '#platform/context.ts';
import { SEEN } from '#platform/db/known-counts.ts';
import type { Window } from '#platform/db/list.ts';
import { conditions, type MergeRequestFilter } from './filter.ts';
import type { Order } from './order.ts';

// Decision 41 explains how a page is found. Each statement first finds ids and sort keys. The columns are then joined to
// the page that is left.

/** Where a list looks: in one project whose merge requests the caller can see, or in all that the caller can see. */
export interface ListScope {
  readonly project_id?: number | undefined;
  /** A group with everything below it. */
  readonly group_id?: number | undefined;
  /** Leaves out the groups below `group_id`. */
  readonly directly?: boolean | undefined;
  readonly non_archived?: boolean | undefined;
}

/** The list that a statement reads. */
export interface Wanted {
  readonly actor: Actor;
  readonly filter: MergeRequestFilter;
  readonly place: ListScope;
  readonly order: Order;
}

/** Joins the columns to a page of `id` and the sort keys. */
export const pageStatement = (
  { order }: Wanted,
  columns: RawBuilder<unknown>,
  { backwards = false }: Window,
  page: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`
  select ${columns}, ${sql.join(order.keys.map((_key, i) => sql.ref(`page.sort_${i}`)))}, page.total, page.drawn, ${SEEN} as seen
  from (${page}) page left join merge_requests on merge_requests.id = page.id
  ${sorted('page', order, order.ascending !== backwards)}`;

/**
 * Walks along the index of the order, and checks each row until the page is full. Ends after `most` rows, so that the
 * page may be short.
 */
export const walk = (wanted: Wanted, window: Window, most: number): RawBuilder<unknown> => {
  const { order, filter, place } = wanted;
  const prefix: Prefix[] = place.project_id === undefined ? [] : [['project_id', sql`${place.project_id}::bigint`]];
  if (order.column === 'created_at' && filter.state && filter.state !== 'all')
    prefix.push(['state', sql`${filter.state}::text`]);
  const { range, by, columns } = lane(order, window, prefix);
  // Only columns of the index, which makes following it cheaper than sorting the project by any other index.
  const index = sql`(select ${sql.join(columns.map((name) => sql.ref(name)))} from merge_requests
    where ${and(range)} order by ${by} limit ${sql.lit(most)})`;
  // The rest of each row is looked up until the page is full, unless the index has all that the filter reads.
  const isCovered = prefix.length === conditions(wanted.actor, filter).length + 1;
  const [walked, rows, checked] = isCovered
    ? ['merge_requests', sql`${index} merge_requests`, matches(wanted)]
    : ['walked', sql`${index} walked cross join lateral ${matchOf(wanted, 'walked')}`, placed(wanted)];
  return sql`select merge_requests.id, ${keys(order)}, null::bigint as total, null::bigint as drawn
    from ${withProjects(wanted, rows)}
    where ${and(checked)} order by ${inDirection(walked, columns, order.ascending !== (window.backwards ?? false))} ${limit(window)}`;
};

/**
 * For a computed order: sorts the ranked merge requests that match, walks along the others by id, and merges both. Above
 * `mostDrawn` ranked ones the page is not complete.
 */
export const walkRanked = (
  wanted: Wanted,
  window: Window,
  { others }: NonNullable<Order['ranked']>,
  ranked: RawBuilder<unknown>,
  mostDrawn: number,
  most: number,
): RawBuilder<unknown> => {
  const { order, place } = wanted;
  const { after, before, backwards = false } = window;
  const up = order.ascending !== backwards;
  const [byKeys, id] = [order.keys.map((_key, i) => sql.ref(`found.sort_${i}`)), sql.ref('found.id')];
  const none = others.map(({ value, as }) => sql`${sql.lit(value)}::${sql.raw(as)}`);
  const isOther = (cursor: Window['after']): cursor is NonNullable<Window['after']> =>
    cursor != null && others.every(({ value }, i) => String(cursor[i]) === String(value));
  const range: RawBuilder<unknown>[] = [];
  const within = (larger: boolean, cursor: NonNullable<Window['after']>) =>
    range.push(sql`merge_requests.id ${sql.raw(larger ? '>' : '<')} ${cursor.at(-1)}`);
  if (isOther(after)) within(order.ascending, after);
  if (isOther(before)) within(!order.ascending, before);
  const columns = place.project_id === undefined ? ['id'] : ['project_id', 'id'];
  // Compared as a row, for the same reason as in `lane`.
  if (place.project_id !== undefined) {
    const row = sql`(merge_requests.project_id, merge_requests.id)`;
    range.push(sql`${row} >= (${place.project_id}::bigint, 0) and ${row} < (${place.project_id}::bigint + 1, 0)`);
  }
  const upTo = sql.lit(window.limit + (window.offset ?? 0));
  return sql`with drawn as materialized (${drawnBy(ranked, mostDrawn)}),
    ranked as materialized (select merge_requests.id, ${keys(order)} from ${withProjects(wanted, drawnMatches(wanted))} where ${and(placed(wanted))}),
    others as materialized (select merge_requests.id, ${sql.join(none.map((value, i) => sql`${value} as ${sql.ref(`sort_${i}`)}`))}
      from ${withProjects(
        wanted,
        sql`(select ${sql.join(columns.map((name) => sql.ref(name)))} from merge_requests where ${and(range)}
          order by ${inDirection('merge_requests', columns, up)} limit ${sql.lit(most)}) walked cross join lateral ${matchOf(wanted, 'walked')}`,
      )}
      where ${and(placed(wanted))} and walked.id not in (select id from drawn)
        and ${and(cursors(order, window, none, sql.ref('walked.id')))}
      order by ${inDirection('walked', columns, up)} limit ${upTo})
    select found.*, null::bigint as total, (select count(*) from drawn) as drawn
    from (select * from ranked union all select * from others) found
    where ${and(cursors(order, window, byKeys, id))} ${sorted('found', order, up)} ${limit(window)}`;
};

/**
 * Checks the rows that `driver` finds, sorts the matches and cuts out the page. Returns the number of rows found by the
 * driver as `drawn`, in a row without an id if there are no matches. Above `most` the page is not complete.
 */
export const gather = (
  wanted: Wanted,
  window: Window,
  driver: RawBuilder<unknown>,
  most: number,
): RawBuilder<unknown> => {
  const { order } = wanted;
  const found = order.keys.map((_key, i) => sql.ref(`found.sort_${i}`));
  const within = cursors(order, window, found, sql.ref('found.id'));
  return sql`with drawn as materialized (${drawnBy(driver, most)}),
    found as materialized (select merge_requests.id, ${keys(order)} from ${withProjects(wanted, drawnMatches(wanted))}
      where ${and(placed(wanted, true))})
    select page.*, (select count(*) from found) as total, (select count(*) from drawn) as drawn
    from (select 1) one left join lateral (select * from found where ${and(within)}
      ${sorted('found', order, order.ascending !== (window.backwards ?? false))} ${limit(window)}) page on true`;
};

/** Reads all matches and sorts them, or lets Postgres follow an index to the end. Complete, and the most expensive. */
export const readAll = (wanted: Wanted, window: Window): RawBuilder<unknown> => {
  const { order } = wanted;
  const { range, by } = byKeys(order, window, matches(wanted));
  return sql`select merge_requests.id, ${keys(order)}, null::bigint as total, null::bigint as drawn
    from ${withProjects(wanted, sql`merge_requests`)} where ${and(range)} order by ${by} ${limit(window)}`;
};

/** Reads the first matches of each project, and sorts them together. Suits places with few merge requests. */
export const byProject = (wanted: Wanted, window: Window): RawBuilder<unknown> => {
  const { actor, filter, order } = wanted;
  const up = order.ascending !== (window.backwards ?? false);
  const { range, by } =
    order.column === null || order.missing !== null
      ? byKeys(order, window, [sql`merge_requests.project_id = projects.id`])
      : lane(order, window, [['project_id', sql`projects.id`]]);
  return sql`select found.*, null::bigint as total, null::bigint as drawn
    from (select projects.id from projects where ${and(placed(wanted))} offset 0) projects cross join lateral (
      select merge_requests.id, ${keys(order)} from merge_requests where ${and([...range, ...conditions(actor, filter)])}
      order by ${by} limit ${sql.lit(window.limit + (window.offset ?? 0))}) found
    ${sorted('found', order, up)} ${limit(window)}`;
};

/** Counts the matches up to `atMost`. */
export const counting = (wanted: Wanted, atMost: number): RawBuilder<unknown> =>
  sql`select count(*) as count, ${SEEN} as seen from (
    select 1 from ${withProjects(wanted, sql`merge_requests`)}
    where ${and(matches(wanted))} limit ${sql.lit(atMost)}) counted`;

/** The same among the rows that `driver` finds, if they are at most `most`. */
export const countingDrawn = (wanted: Wanted, driver: RawBuilder<unknown>, most: number): RawBuilder<unknown> =>
  sql`with drawn as materialized (${drawnBy(driver, most)})
    select (select count(*) from drawn) as drawn, ${SEEN} as seen, count(*) as count
    from ${withProjects(wanted, drawnMatches(wanted))} where ${and(placed(wanted, true))}`;

const drawnBy = (driver: RawBuilder<unknown>, most: number) =>
  sql`select distinct id from (select id from (${driver}) every limit ${sql.lit(most + 1)}) first_ones`;

// The inner `offset 0` makes Postgres look each row up by its id, the outer one makes it check one row at a time. It would
// read the whole table, or all labels of all merge requests, because it cannot know how few rows are left.
const matchOf = (wanted: Wanted, found: string): RawBuilder<unknown> =>
  sql`(select * from (select * from merge_requests where merge_requests.id = ${sql.ref(`${found}.id`)} offset 0) merge_requests
    where ${and(rowMatches(wanted))} offset 0) merge_requests`;

const drawnMatches = (wanted: Wanted): RawBuilder<unknown> => sql`drawn cross join lateral ${matchOf(wanted, 'drawn')}`;

const matches = (wanted: Wanted): RawBuilder<unknown>[] => [...rowMatches(wanted), ...placed(wanted)];

/** The conditions on the row `merge_requests` alone. */
const rowMatches = ({ actor, filter, place }: Wanted): RawBuilder<unknown>[] => [
  ...conditions(actor, filter),
  ...(place.project_id === undefined ? [] : [sql`merge_requests.project_id = ${place.project_id}`]),
];

/**
 * The conditions on the row `projects`. None for a single project, whose row is not joined. For rows that a driver found,
 * the groups below a group are read once: Postgres expects few rows, and would search the groups again for each.
 */
const placed = ({ actor, place }: Wanted, areDrawn = false): RawBuilder<unknown>[] => {
  const { project_id, non_archived, group_id, directly } = place;
  if (project_id !== undefined) return [];
  return [
    mergeRequestIsVisible(actor),
    ...(non_archived ? [sql`not projects.archived`] : []),
    ...(group_id === undefined ? [] : [isBelowGroup(sql`${group_id}::bigint`, !directly, areDrawn)]),
  ];
};

const withProjects = ({ place }: Wanted, rows: RawBuilder<unknown>): RawBuilder<unknown> =>
  place.project_id === undefined ? sql`${rows} join projects on projects.id = merge_requests.project_id` : rows;

/** Requires that the joined row `projects` is in the group, or also in a group below it. */
export const isBelowGroup = (
  groupId: RawBuilder<number>,
  includeSubgroups: boolean,
  readsOnce = false,
): RawBuilder<boolean> => {
  if (!includeSubgroups) return sql<boolean>`projects.namespace_id = ${groupId}`;
  const below = sql`select n.id from namespaces n where n.traversal_ids @> array[${groupId}]`;
  return readsOnce
    ? sql<boolean>`projects.namespace_id = any (array(${below}))`
    : sql<boolean>`projects.namespace_id in (${below})`;
};

const keys = ({ keys }: Order): RawBuilder<unknown> =>
  sql.join(keys.map(({ by }, i) => sql`${by} as ${sql.ref(`sort_${i}`)}`));

const and = (all: readonly RawBuilder<unknown>[]): RawBuilder<unknown> =>
  all.length === 0 ? sql`true` : sql.join(all, sql` and `);

const direction = (up: boolean): RawBuilder<unknown> => sql.raw(up ? 'asc' : 'desc');

const sorted = (from: string, { keys }: Order, up: boolean): RawBuilder<unknown> =>
  sql`order by ${sql.join([...keys.keys()].map((i) => sql`${sql.ref(`${from}.sort_${i}`)} ${direction(up)}`))}, ${sql.ref(`${from}.id`)} ${direction(up)}`;

const inDirection = (from: string, columns: readonly string[], up: boolean): RawBuilder<unknown> =>
  sql.join(columns.map((name) => sql`${sql.ref(`${from}.${name}`)} ${direction(up)}`));

// A literal: a generic plan would assume a tenth of the table.
const limit = ({ limit, offset = 0 }: Window): RawBuilder<unknown> =>
  sql`limit ${sql.lit(limit)} ${offset > 0 ? sql`offset ${sql.lit(offset)}` : sql``}`;

/** A column before the one of the order in its index, with the value that it has in all rows of the list. */
type Prefix = readonly [column: 'project_id' | 'state', value: RawBuilder<unknown>];

/** The conditions that select a part of an order, and the order. */
interface Range {
  readonly range: readonly RawBuilder<unknown>[];
  readonly by: RawBuilder<unknown>;
}

/** With the columns of the index that is followed. */
interface Lane extends Range {
  readonly columns: readonly string[];
}

/**
 * Follows the index of `prefix`, the column of the order and the id. The prefix is compared as a part of rows: with
 * `project_id = $1` Postgres would expect the few merge requests of an average project, and sort those of any other
 * index.
 */
const lane = (order: Order, window: Window, prefix: readonly Prefix[]): Lane => {
  const { backwards = false, after, before } = window;
  const up = order.ascending !== backwards;
  const ordered = order.column ?? 'created_at';
  const columns = [...prefix.map(([name]) => name), ordered, 'id'];
  const column = sql.ref(`merge_requests.${ordered}`);
  const values = prefix.map(([_name, value]) => value);
  const range: RawBuilder<unknown>[] = order.missing === null ? [] : [sql`${column} is not null`];
  const compare = (larger: boolean, cursor: NonNullable<Window['after']>) =>
    range.push(
      sql`(${sql.join(columns.map((name) => sql.ref(`merge_requests.${name}`)))}) ${sql.raw(larger ? '>' : '<')} (${sql.join([...values, ...cursor])})`,
    );
  if (after) compare(order.ascending, after);
  if (before) compare(!order.ascending, before);
  if (prefix.length > 0) {
    const isTitle = order.column === 'title';
    const row = sql`(${sql.join(columns.slice(0, -1).map((name) => sql.ref(`merge_requests.${name}`)))})`;
    const least = isTitle ? sql`''` : sql`'-infinity'::timestamptz`;
    range.push(sql`${row} >= (${sql.join([...values, least])})`);
    // No title is the largest, so the range ends before the next project.
    range.push(
      isTitle
        ? sql`${row} < (${sql.join([...values.map((value) => sql`${value} + 1`), least])})`
        : sql`${row} <= (${sql.join([...values, sql`'infinity'::timestamptz`])})`,
    );
  }
  return { range, by: inDirection('merge_requests', columns, up), columns };
};

/** Sorts by the keys of the order, whatever index there is. */
const byKeys = (order: Order, window: Window, conditions: readonly RawBuilder<unknown>[]): Range => {
  const up = order.ascending !== (window.backwards ?? false);
  const id = sql.ref('merge_requests.id');
  const by = order.keys.map((key) => key.by);
  return {
    range: [...conditions, ...cursors(order, window, by, id)],
    by: sql.join([...by, id].map((each) => sql`${each} ${direction(up)}`)),
  };
};

const cursors = (
  { ascending }: Order,
  { after, before }: Window,
  by: readonly RawBuilder<unknown>[],
  id: RawBuilder<unknown>,
): RawBuilder<unknown>[] => {
  const row = sql`(${sql.join([...by, id])})`;
  const compared = (larger: boolean, values: NonNullable<Window['after']>) =>
    sql`${row} ${sql.raw(larger ? '>' : '<')} (${sql.join(values)})`;
  return [...(after ? [compared(ascending, after)] : []), ...(before ? [compared(!ascending, before)] : [])];
};
