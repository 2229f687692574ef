import { type Expression, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import pg from 'pg';
import { badCursor, type CursorValues } from '../cursor.ts';
import type { SortDirection } from '../paging.ts';
import type { Database } from './pool.ts';
import type { DB } from './tables.ts';

/** The part of a sorted list to read: by offset, or next to a known row, given by its sort columns. */
export interface Window {
  readonly limit: number;
  readonly offset?: number;
  readonly after?: CursorValues | null;
  readonly before?: CursorValues | null;
  /** Reads the rows just before `before`, or the end of the list, nearest first. */
  readonly backwards?: boolean;
}

/**
 * A sorted list that has not been read yet. Domains return it from `listX(ctx, filter)`, and each interface reads the
 * part that its kind of paging needs. Filter, order and rights are thus written once.
 */
export interface List<Row> {
  rows(window: Window): Promise<Row[]>;
  /** Returns the number of rows. Stops counting after `atMost + 1`. */
  count(atMost: number): Promise<number>;
  /** Returns the values of the sort columns of a row, the unique one last. */
  cursorOf(row: Row): CursorValues;
}

/** One sort column: its SQL expression and its value in a row. Must not be null: wrap it in `coalesce`. */
export interface SortKey<Row> {
  readonly by: RawBuilder<unknown>;
  readonly of: (row: Row) => string | number | boolean | null;
}

/** How a list that may sort thousands of rows reads those of a page. It sorts ids, which an index may have alone. */
export interface RowsById<Row> {
  /** The id of a row of the list. */
  readonly id: RawBuilder<number>;
  /** Selects the row with the id. */
  rowOf(id: RawBuilder<number>): Expression<Row>;
}

/**
 * Creates the list of the rows that `query` selects, sorted by `keys`, the last one unique. All keys share one
 * direction, so that a keyset page is a single row comparison that an index can serve.
 */
export const listOf = <Tables extends keyof DB, Row>(
  db: Database,
  query: SelectQueryBuilder<DB, Tables, Row>,
  keys: readonly SortKey<Row>[],
  direction: SortDirection,
  byId?: RowsById<Row>,
): List<Row> => ({
  rows: (window) =>
    unlessBadCursor(window, async () => (await pageOf(query, keys, direction, window, byId).execute(db)).rows),
  count: async (atMost) => {
    const counted = query
      .clearSelect()
      .clearOrderBy()
      .select(sql<number>`1`.as('one'))
      .limit(atMost + 1);
    const row = await db
      .selectFrom(counted.as('counted'))
      .select(sql<number>`count(*)`.as('count'))
      .executeTakeFirstOrThrow();
    return row.count;
  },
  cursorOf: (row) => keys.map((key) => key.of(row)),
});

/** How to find the rows of `table` that contain a term. */
export interface TermSearch {
  readonly table: keyof DB;
  /** Whether a row contains the term, from columns that the list selects. */
  readonly contains: RawBuilder<boolean>;
  /** The same, so that Postgres looks the rows up by an index of the texts, all at once. */
  readonly found: RawBuilder<boolean>;
}

/** How many rows are searched in the order of the list, before all that contain the term are looked up. */
export const WALKED = 2_000;

/**
 * Creates a list as `listOf` does, of those rows of `query` that contain a term. Postgres cannot know how many do. Of a
 * common term, the first rows of the order have enough for the page; of a rare one, an index finds all.
 */
export const searchedListOf = <Tables extends keyof DB, Row>(
  db: Database,
  query: SelectQueryBuilder<DB, Tables, Row>,
  keys: readonly SortKey<Row>[],
  direction: SortDirection,
  { table, contains, found }: TermSearch,
): List<Row> => {
  const walk = (window: Window): RawBuilder<Row> => {
    const { limit, offset = 0, ...edges } = window;
    const first = windowOf(query, keys, direction, { ...edges, limit: WALKED });
    const way = wayOf(direction, window);
    return sql<Row>`select * from (${first}) ${sql.table(table)} where ${contains}
      order by ${sql.join(keys.map(({ by }) => sql`${by} ${way}`))} limit ${limit} offset ${offset}`;
  };
  return {
    ...listOf(db, query.where(contains), keys, direction),
    rows: (window) =>
      unlessBadCursor(window, async () => {
        const { rows } = await walk(window).execute(db);
        return rows.length === window.limit
          ? rows
          : (await pageOf(query.where(found), keys, direction, window).execute(db)).rows;
      }),
  };
};

/** Selects the rows of the window as `windowOf` does, or by their ids. The lateral join keeps their order. */
export const pageOf = <Tables extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, Tables, Row>,
  keys: readonly SortKey<Row>[],
  direction: SortDirection,
  window: Window,
  byId?: RowsById<Row>,
): RawBuilder<Row> => {
  const page = windowOf(query, keys, direction, window);
  if (byId === undefined) return sql<Row>`${page}`;
  return sql<Row>`select whole.* from (${page.clearSelect().select(byId.id.as('id'))}) page
    cross join lateral (${byId.rowOf(sql<number>`page.id`)} offset 0) whole`;
};

/** Selects the rows of the window from `query`, sorted by `keys`. */
const windowOf = <Tables extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, Tables, Row>,
  keys: readonly SortKey<Row>[],
  direction: SortDirection,
  window: Window,
): SelectQueryBuilder<DB, Tables, Row> => {
  const { limit, offset = 0, after, before } = window;
  const columns = sql.join(keys.map((key) => key.by));
  const beyond = (values: CursorValues, forwards: boolean) => {
    const larger = forwards === (direction === 'asc');
    return sql<boolean>`(${columns}) ${sql.raw(larger ? '>' : '<')} (${sql.join(values)})`;
  };
  const order = wayOf(direction, window);
  let page = query.limit(limit);
  if (offset > 0) page = page.offset(offset);
  if (after) page = page.where(beyond(after, true));
  if (before) page = page.where(beyond(before, false));
  for (const key of keys) page = page.orderBy(sql`${key.by} ${order}`);
  return page;
};

const wayOf = (direction: SortDirection, { backwards = false }: Pick<Window, 'backwards'>): RawBuilder<unknown> =>
  sql.raw(backwards === (direction === 'asc') ? 'desc' : 'asc');

/**
 * Returns what `read` returns. Cursors come from outside, and a value of the wrong type fails in the database (class 22).
 *
 * @throws DomainError `bad_request` if a cursor of the window made it fail
 */
export const unlessBadCursor = async <T>({ after, before }: Window, read: () => Promise<T>): Promise<T> => {
  try {
    return await read();
  } catch (error) {
    throw (after || before) && isDataException(error) ? badCursor() : error;
  }
};

const isDataException = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code !== undefined && error.code.startsWith('22');

/**
 * Creates a list from rows in memory (branches, languages) that are already in order. `keyOf` returns each row's unique
 * key. If `compare` defines the order of the keys, a cursor stays valid even after its row is gone.
 */
export const listOfRows = <Row, Key extends string | number = string | number>(
  all: readonly Row[],
  keyOf: (row: Row) => Key,
  compare?: (left: Key, right: CursorValues[number]) => number,
): List<Row> => ({
  rows: ({ limit, offset = 0, after, before, backwards = false }) => {
    const place = (cursor: CursorValues) => all.findIndex((row) => keyOf(row) === cursor[0]);
    const first = (cursor: CursorValues, isThere: (order: number) => boolean) => {
      let [low, high] = [0, all.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        const row = all[middle];
        if (row !== undefined && compare && isThere(compare(keyOf(row), cursor[0] ?? null))) high = middle;
        else low = middle + 1;
      }
      return low;
    };
    const start = !after ? 0 : compare ? first(after, (order) => order > 0) : place(after) + 1;
    const end = !before ? -1 : compare ? first(before, (order) => order >= 0) : place(before);
    const from = start + offset;
    const to = end < 0 ? all.length : end;
    return Promise.resolve(
      backwards ? all.slice(Math.max(from, to - limit), to).toReversed() : all.slice(from, Math.min(to, from + limit)),
    );
  },
  count: () => Promise.resolve(all.length),
  cursorOf: (row) => [keyOf(row)],
});

/** The order in which git sorts names: by their bytes. */
export const compareBytes = (left: string, right: CursorValues[number]): number =>
  Buffer.compare(Buffer.from(left), Buffer.from(String(right)));
