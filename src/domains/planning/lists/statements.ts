import { type RawBuilder, sql } from 'kysely';
import { and } from '#platform/db/conditions.ts';
import { SEEN } from '#platform/db/known-counts.ts';
import type { Window } from '#platform/db/list.ts';
import type { ListPlace, Order, Prefix, Ranked, Wanted } from './model.ts';

// Decision 41 explains how a page is found. Each statement first finds ids and sort keys. The columns are then joined to
// the page that is left.

/** Joins the columns to a page of `id` and the sort keys. */
export const pageStatement = <Row>(
  { table, order }: Wanted<Row>,
  columns: RawBuilder<unknown>,
  { backwards = false }: Window,
  page: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`
  select ${sql.join([columns, ...sorts('page', order), sql`page.total, page.drawn, ${SEEN} as seen`])}
  from (${page}) page left join ${sql.table(table)} on ${sql.ref(`${table}.id`)} = page.id
  ${sorted('page', order, order.ascending !== backwards)}`;

/**
 * Walks along the index of the order, and checks each row until the page is full. Ends after `most` rows, so that the
 * page may be short: then `drawn` says how many rows there were, in a row without an id if none matches. With `inGroup`,
 * the projects of the group are read first, and no other row is looked up: the index has the project.
 */
export const walk = <Row>(wanted: Wanted<Row>, window: Window, most: number, inGroup = false): RawBuilder<unknown> => {
  const { table, order, place, prefix, conditions, ranges, visible } = wanted;
  const { range, by, columns, sortedBy } = lane(wanted, window, prefix);
  // Only columns of the index, which makes following it cheaper than sorting the project by any other index.
  const read = inGroup ? [...columns, 'project_id'] : columns;
  const index = sql`(select ${sql.join(read.map((name) => sql.ref(name)))} from ${sql.table(table)}
    where ${and([...range, ...ranges])} order by ${by} limit ${sql.lit(most)})`;
  // The rest of each row is looked up until the page is full, unless the index has all that the filter reads.
  const covered = prefix.filter(({ isCondition }) => isCondition).length + ranges.length;
  const isCovered = visible === null && place.project_id !== undefined && conditions.length === covered;
  const [walked, rows] = isCovered
    ? [table, sql`${index} ${sql.table(table)} where ${and(matches(wanted))}`]
    : [
        'walked',
        sql`${inGroup ? ofGroup(index, place) : index} walked cross join lateral ${seenMatchOf(wanted, 'walked')}`,
      ];
  const up = order.ascending !== (window.backwards ?? false);
  // Counted only for a short page, because it reads the index to the end.
  return sql`with page as materialized (select ${sql.join([sql.ref(`${table}.id`), ...keys(order)])}
      from ${rows} order by ${inDirection(walked, sortedBy, up)} ${limit(window)})
    select page.*, null::bigint as total,
      case when (select count(*) from page) < ${sql.lit(window.limit)} then (select count(*) from ${index} every) end as drawn
    from (select 1) one left join page on true`;
};

/** `case` keeps Postgres from joining, which would lose the order: it hashes the projects. */
const ofGroup = (index: RawBuilder<unknown>, { group_id, directly }: ListPlace): RawBuilder<unknown> =>
  sql`(select * from ${index} every where case when every.project_id in (
    select projects.id from projects where ${isBelowGroup(sql`${group_id}::bigint`, !directly)}) then true end)`;

/**
 * For a computed order: sorts the ranked rows that match, walks along the others by id, and merges both. Above
 * `mostDrawn` ranked ones the page is not complete.
 */
export const walkRanked = <Row>(
  wanted: Wanted<Row>,
  window: Window,
  { others }: Ranked,
  ranked: RawBuilder<unknown>,
  mostDrawn: number,
  most: number,
): RawBuilder<unknown> => {
  const { table, order, place } = wanted;
  const { after, before, backwards = false } = window;
  const up = order.ascending !== backwards;
  const rowId = sql.ref(`${table}.id`);
  const none = others.map(({ value, as }) => sql`${sql.lit(value)}::${sql.raw(as)}`);
  const isOther = (cursor: Window['after']): cursor is NonNullable<Window['after']> =>
    cursor != null && others.every(({ value }, i) => String(cursor[i]) === String(value));
  const range: RawBuilder<unknown>[] = [];
  const within = (larger: boolean, cursor: NonNullable<Window['after']>) =>
    range.push(sql`${rowId} ${sql.raw(larger ? '>' : '<')} ${cursor.at(-1)}`);
  if (isOther(after)) within(order.ascending, after);
  if (isOther(before)) within(!order.ascending, before);
  const columns = place.project_id === undefined ? ['id'] : ['project_id', 'id'];
  // Compared as a row: with `project_id = $1` Postgres would expect the few rows of an average project.
  if (place.project_id !== undefined) {
    const row = sql`(${sql.ref(`${table}.project_id`)}, ${rowId})`;
    range.push(sql`${row} >= (${place.project_id}::bigint, 0) and ${row} < (${place.project_id}::bigint + 1, 0)`);
  }
  const upTo = sql.lit(window.limit + (window.offset ?? 0));
  return sql`with drawn as materialized (${drawnBy(ranked, mostDrawn)}),
    ranked as materialized (select ${sql.join([rowId, ...keys(order)])} from ${drawnMatches(wanted)}),
    others as materialized (select ${sql.join([rowId, ...none.map((value, i) => sql`${value} as ${sql.ref(`sort_${i}`)}`)])}
      from (select ${sql.join(columns.map((name) => sql.ref(name)))} from ${sql.table(table)} where ${and(range)}
          order by ${inDirection(table, columns, up)} limit ${sql.lit(most)}) walked cross join lateral ${seenMatchOf(wanted, 'walked')}
      where walked.id not in (select id from drawn)
        and ${and(cursors(order, window, none, sql.ref('walked.id')))}
      order by ${inDirection('walked', columns, up)} limit ${upTo})
    select found.*, null::bigint as total, (select count(*) from drawn) as drawn
    from (select * from ranked union all select * from others) found
    where ${and(cursors(order, window, sorts('found', order), sql.ref('found.id')))} ${sorted('found', order, up)} ${limit(window)}`;
};

/**
 * Checks the rows that `driver` finds, sorts the matches and cuts out the page. Returns the number of rows found by the
 * driver as `drawn`, in a row without an id if there are no matches. Above `most` the page is not complete.
 */
export const gather = <Row>(
  wanted: Wanted<Row>,
  window: Window,
  driver: RawBuilder<unknown>,
  most: number,
): RawBuilder<unknown> => {
  const { table, order } = wanted;
  const within = cursors(order, window, sorts('found', order), sql.ref('found.id'));
  return sql`with drawn as materialized (${drawnBy(driver, most)}),
    found as materialized (select ${sql.join([sql.ref(`${table}.id`), ...keys(order)])} from ${drawnMatches(wanted)}
      where (select count(*) from drawn) <= ${sql.lit(most)})
    select page.*, (select count(*) from found) as total, (select count(*) from drawn) as drawn
    from (select 1) one left join lateral (select * from found where ${and(within)}
      ${sorted('found', order, order.ascending !== (window.backwards ?? false))} ${limit(window)}) page on true`;
};

/** Reads all matches and sorts them, or lets Postgres follow an index to the end. Complete, and the most expensive. */
export const readAll = <Row>(wanted: Wanted<Row>, window: Window): RawBuilder<unknown> => {
  const { table, order } = wanted;
  const { range, by } = byKeys(wanted, window, matches(wanted));
  return sql`select ${sql.join([sql.ref(`${table}.id`), ...keys(order), UNCOUNTED])}
    from ${withProjects(wanted, sql.table(table))} where ${and(range)} order by ${by} ${limit(window)}`;
};

/** Reads the first matches of each project, and sorts them together. Suits places where projects have few rows. */
export const byProject = <Row>(wanted: Wanted<Row>, window: Window): RawBuilder<unknown> => {
  const { table, order, conditions, visible } = wanted;
  const up = order.ascending !== (window.backwards ?? false);
  const { range, by } = byKeys(wanted, window, [sql`${sql.ref(`${table}.project_id`)} = projects.id`]);
  return sql`select found.*, ${UNCOUNTED}
    from (select ${sql.raw(visible?.row ? 'projects.*' : 'projects.id')} from projects where ${and(ofProject(wanted))} offset 0) projects cross join lateral (
      select ${sql.join([sql.ref(`${table}.id`), ...keys(order)])} from ${sql.table(table)} where ${and([...range, ...conditions, ...seenRow(wanted)])}
      order by ${by} limit ${sql.lit(window.limit + (window.offset ?? 0))}) found
    ${sorted('found', order, up)} ${limit(window)}`;
};

/** Counts the matches up to `atMost`. */
export const counting = <Row>(wanted: Wanted<Row>, atMost: number): RawBuilder<unknown> =>
  sql`select count(*) as count, ${SEEN} as seen from (
    select 1 from ${withProjects(wanted, sql.table(wanted.table))}
    where ${and(matches(wanted))} limit ${sql.lit(atMost)}) counted`;

/** The same among the first `most` rows that `driver` finds, and one more. */
export const countingDrawn = <Row>(
  wanted: Wanted<Row>,
  driver: RawBuilder<unknown>,
  most: number,
  atMost: number,
): RawBuilder<unknown> =>
  sql`with drawn as materialized (${drawnBy(driver, most)})
    select (select count(*) from drawn) as drawn, ${SEEN} as seen, count(*) as count
    from (select 1 from ${drawnMatches(wanted)} limit ${sql.lit(atMost)}) counted`;

const UNCOUNTED = sql`null::bigint as total, null::bigint as drawn`;

const drawnBy = (driver: RawBuilder<unknown>, most: number) =>
  sql`select distinct id from (select id from (${driver}) every limit ${sql.lit(most + 1)}) first_ones`;

// The inner `offset 0` makes Postgres look each row up by its id, the outer one makes it check one row at a time. It would
// read the whole table, or all labels of all rows, because it cannot know how few rows are left.
const matchOf = <Row>(wanted: Wanted<Row>, found: string): RawBuilder<unknown> => {
  const table = sql.table(wanted.table);
  return sql`(select * from (select * from ${table} where ${sql.ref(`${wanted.table}.id`)} = ${sql.ref(`${found}.id`)} offset 0) ${table}
    where ${and(rowMatches(wanted))} offset 0) ${table}`;
};

/** The same, if the caller can see the row. One row at a time, so that a walk stops as soon as its page is full. */
const seenMatchOf = <Row>(wanted: Wanted<Row>, found: string): RawBuilder<unknown> => {
  if (wanted.visible === null) return matchOf(wanted, found);
  const table = sql.table(wanted.table);
  return sql`(select ${table}.* from ${withProjects(wanted, matchOf(wanted, found))}
    where ${and(placed(wanted, true))} offset 0) ${table}`;
};

/**
 * Also looks up the project of each row, and remembers it for the next one. Postgres would otherwise judge all projects
 * of the hub, because it expects many rows. The condition on both rows has a subquery of its own, because with it in the
 * join Postgres would not remember the project.
 */
const drawnMatches = <Row>(wanted: Wanted<Row>): RawBuilder<unknown> => {
  const rows = sql`drawn cross join lateral ${matchOf(wanted, 'drawn')}`;
  if (wanted.visible === null) return rows;
  return sql`${rows} cross join lateral (select * from projects
    where projects.id = ${sql.ref(`${wanted.table}.project_id`)} and ${and(ofProject(wanted, true))} offset 0) projects
    ${wanted.visible.row ? sql`cross join lateral (select where ${wanted.visible.row} offset 0) seen` : sql``}`;
};

const seenRow = <Row>({ visible }: Wanted<Row>): RawBuilder<unknown>[] => (visible?.row ? [visible.row] : []);

const matches = <Row>(wanted: Wanted<Row>): RawBuilder<unknown>[] => [...rowMatches(wanted), ...placed(wanted)];

/** The conditions on the row of the table alone. */
const rowMatches = <Row>({ table, conditions, place }: Wanted<Row>): RawBuilder<unknown>[] => [
  ...conditions,
  ...(place.project_id === undefined ? [] : [sql`${sql.ref(`${table}.project_id`)} = ${place.project_id}`]),
];

/**
 * The conditions on the row together with the row `projects`. With `readsOnce`, the groups below a group are read once,
 * for rows that are judged one at a time: otherwise Postgres would search the groups again for each.
 */
const placed = <Row>(wanted: Wanted<Row>, readsOnce = false): RawBuilder<unknown>[] => [
  ...ofProject(wanted, readsOnce),
  ...seenRow(wanted),
];

/** The conditions on the row `projects`. None if it is not joined. */
const ofProject = <Row>({ place, visible }: Wanted<Row>, readsOnce = false): RawBuilder<unknown>[] => {
  const { non_archived, group_id, directly } = place;
  if (visible === null) return [];
  return [
    visible.project,
    ...(non_archived ? [sql`not projects.archived`] : []),
    ...(group_id === undefined ? [] : [isBelowGroup(sql`${group_id}::bigint`, !directly, readsOnce)]),
  ];
};

const withProjects = <Row>({ table, visible }: Wanted<Row>, rows: RawBuilder<unknown>): RawBuilder<unknown> =>
  visible === null ? rows : sql`${rows} join projects on projects.id = ${sql.ref(`${table}.project_id`)}`;

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

const keys = <Row>({ keys }: Order<Row>): RawBuilder<unknown>[] =>
  keys.map(({ by }, i) => sql`${by} as ${sql.ref(`sort_${i}`)}`);

const sorts = <Row>(from: string, { keys }: Order<Row>): RawBuilder<unknown>[] =>
  keys.map((_key, i) => sql.ref(`${from}.sort_${i}`));

const direction = (up: boolean): RawBuilder<unknown> => sql.raw(up ? 'asc' : 'desc');

const sorted = <Row>(from: string, order: Order<Row>, up: boolean): RawBuilder<unknown> =>
  sql`order by ${sql.join([...sorts(from, order), sql.ref(`${from}.id`)].map((by) => sql`${by} ${direction(up)}`))}`;

const inDirection = (from: string, columns: readonly string[], up: boolean): RawBuilder<unknown> =>
  sql.join(columns.map((name) => sql`${sql.ref(`${from}.${name}`)} ${direction(up)}`));

// A literal: a generic plan would assume a tenth of the table.
const limit = ({ limit, offset = 0 }: Window): RawBuilder<unknown> =>
  sql`limit ${sql.lit(limit)} ${offset > 0 ? sql`offset ${sql.lit(offset)}` : sql``}`;

/** The conditions that select a part of an order, and the order. */
interface Range {
  readonly range: readonly RawBuilder<unknown>[];
  readonly by: RawBuilder<unknown>;
}

/** With the columns of the index that is followed, and those of them that are not the same in all rows. */
interface Lane extends Range {
  readonly columns: readonly string[];
  readonly sortedBy: readonly string[];
}

/**
 * Follows the index of `prefix`, the column of the order and the id. The prefix is not a part of the sort: with it,
 * Postgres sorted a large project by another index (incremental sort), because it expected the few rows of an average one.
 */
const lane = <Row>({ table, order }: Wanted<Row>, window: Window, prefix: readonly Prefix[]): Lane => {
  const { backwards = false, after, before } = window;
  const up = order.ascending !== backwards;
  const ordered = order.column ?? 'created_at';
  const sortedBy = ordered === 'id' ? [ordered] : [ordered, 'id'];
  const row = sql`(${sql.join(sortedBy.map((name) => sql.ref(`${table}.${name}`)))})`;
  const compared = (larger: boolean, cursor: NonNullable<Window['after']>) =>
    sql`${row} ${sql.raw(larger ? '>' : '<')} (${sql.join(cursor)})`;
  return {
    range: [
      ...prefix.map(({ column, value }) => sql`${sql.ref(`${table}.${column}`)} = ${value}`),
      ...(after ? [compared(order.ascending, after)] : []),
      ...(before ? [compared(!order.ascending, before)] : []),
    ],
    by: inDirection(table, sortedBy, up),
    sortedBy,
    columns: [...prefix.map(({ column }) => column), ...sortedBy],
  };
};

/** Sorts by the keys of the order, whatever index there is. */
const byKeys = <Row>(
  { table, order }: Wanted<Row>,
  window: Window,
  conditions: readonly RawBuilder<unknown>[],
): Range => {
  const up = order.ascending !== (window.backwards ?? false);
  const id = sql.ref(`${table}.id`);
  const by = order.keys.map((key) => key.by);
  return {
    range: [...conditions, ...cursors(order, window, by, id)],
    by: sql.join([...by, id].map((each) => sql`${each} ${direction(up)}`)),
  };
};

const cursors = <Row>(
  { ascending }: Order<Row>,
  { after, before }: Window,
  by: readonly RawBuilder<unknown>[],
  id: RawBuilder<unknown>,
): RawBuilder<unknown>[] => {
  const row = sql`(${sql.join([...by, id])})`;
  const compared = (larger: boolean, values: NonNullable<Window['after']>) =>
    sql`${row} ${sql.raw(larger ? '>' : '<')} (${sql.join(values)})`;
  return [...(after ? [compared(ascending, after)] : []), ...(before ? [compared(!ascending, before)] : [])];
};
