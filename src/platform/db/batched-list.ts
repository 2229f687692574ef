import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { Context } from '../context.ts';
import type { CursorValues } from '../cursor.ts';
import type { SortDirection } from '../paging.ts';
import { CompiledStatements, runCompiled, slot } from './compiled.ts';
import { type List, pageOf, type RowsById, type SortKey, unlessBadCursor, type Window } from './list.ts';
import type { Database } from './pool.ts';
import type { DB } from './tables.ts';
import { rowText, type TextColumn } from './text-rows.ts';

/**
 * The same list below each of many parents, such as the projects of each group on a page. One statement reads all of
 * them, and each parent has its own window. GraphQL reads it with `batchedConnection`.
 */
export interface BatchedList<Row> {
  /** Parents without rows may be missing from the map. */
  rows(parentIds: readonly number[], window: Window): Promise<ReadonlyMap<number, readonly Row[]>>;
  /**
   * Returns the rows of each parent as JSON objects with these columns, separated by commas. Absent if the list only
   * reads rows. Parents without rows may be missing from the map.
   */
  texts?(
    parentIds: readonly number[],
    window: Window,
    columns: readonly TextColumn[],
  ): Promise<ReadonlyMap<number, string>>;
  /** Returns the number of rows below each parent. Stops counting after `atMost + 1`. */
  counts(parentIds: readonly number[], atMost: number): Promise<ReadonlyMap<number, number>>;
  /** Returns the values of the sort columns of a row, the unique one last. */
  cursorOf(row: Row): CursorValues;
}

/**
 * Creates a batched list of the rows that `below(parentId)` selects, sorted by `keys` as in `listOf`:
 *
 *     batchedListOf(ctx.db, (groupId) => visibleIssues(ctx).where('issues.group_id', '=', groupId), [byId], 'desc')
 */
export const batchedListOf = <Tables extends keyof DB, Row>(
  db: Database,
  below: (parentId: RawBuilder<number>) => SelectQueryBuilder<DB, Tables, Row>,
  keys: readonly SortKey<Row>[],
  direction: SortDirection,
  { compiled, byId }: { readonly compiled?: CompiledAs; readonly byId?: RowsById<Row> } = {},
): BatchedList<Row> => ({
  rows: (parentIds, window) =>
    unlessBadCursor(window, async () => {
      const page = () => pageOf(below(PARENT), keys, direction, window, byId);
      if (compiled && !window.after && !window.before) {
        const statement = statements.get(compiled.ctx, windowShape(compiled, direction, window), () =>
          batchedRows<Row>(slot('parents'), page()),
        );
        return groupedByParent(await runCompiled<Row & OfParent>(compiled.ctx, statement, { parents: parentIds }));
      }
      const { rows } = await batchedRows<Row>(parentIds, page()).execute(db);
      return groupedByParent(rows);
    }),
  texts: (parentIds, window, columns) =>
    unlessBadCursor(window, async () => {
      const page = () => pageOf(below(PARENT), keys, direction, window, byId);
      if (compiled && !window.after && !window.before) {
        const written = columns.map(({ name, column, as }) => `${name}:${column}:${as}`);
        const shape = `text|${windowShape(compiled, direction, window)}|${written.join()}`;
        const statement = statements.get(compiled.ctx, shape, () => batchedTexts(slot('parents'), page(), columns));
        return textsByParent(await runCompiled<OfParent & Text>(compiled.ctx, statement, { parents: parentIds }));
      }
      return textsByParent((await batchedTexts(parentIds, page(), columns).execute(db)).rows);
    }),
  counts: async (parentIds, atMost) => {
    const counted = below(PARENT)
      .clearSelect()
      .clearOrderBy()
      .select(sql<number>`1`.as('one'))
      .limit(atMost + 1);
    const { rows } = await batchedCounts(parentIds, sql`${counted}`).execute(db);
    return new Map(rows.map((row) => [row.batch_parent_id, row.count]));
  },
  cursorOf: (row) => keys.map((key) => key.of(row)),
});

/**
 * Reads below a single parent as the ordinary list `alone`, which may know more ways to find its rows. Where that is null,
 * and for several parents, `many` is read.
 */
export const aloneOrBatched = <Row>(
  many: BatchedList<Row>,
  alone: (parentId: number) => List<Row> | null,
): BatchedList<Row> => {
  // The same list again, because a page and its count share what they found.
  let made: { readonly parent: number; readonly list: List<Row> | null } | null = null;
  const listOf = ([parent, ...others]: readonly number[]) => {
    if (parent === undefined || others.length > 0) return null;
    if (made?.parent !== parent) made = { parent, list: alone(parent) };
    return made.list && { parent, list: made.list };
  };
  return {
    cursorOf: many.cursorOf,
    rows: async (parents, window) => {
      const single = listOf(parents);
      return single ? new Map([[single.parent, await single.list.rows(window)]]) : many.rows(parents, window);
    },
    counts: async (parents, atMost) => {
      const single = listOf(parents);
      return single ? new Map([[single.parent, await single.list.count(atMost)]]) : many.counts(parents, atMost);
    },
  };
};

const windowShape = (
  { shape }: CompiledAs,
  direction: SortDirection,
  { limit, offset = 0, backwards }: Window,
): string => `${shape}|${direction}|${limit}|${offset}|${backwards}`;

/** Allows the statement to be compiled once. Only for statements whose values are all identified by `shape`. */
export interface CompiledAs {
  readonly ctx: Pick<Context, 'db' | 'services' | 'actor'>;
  /** Identifies the statement among all batched lists. */
  readonly shape: string;
}

const statements = new CompiledStatements();

/** Stands for the id of each parent in the SQL passed to `batchedRows` and `batchedCounts`. */
export const PARENT: RawBuilder<number> = sql<number>`batch.parent_id`;

export interface OfParent {
  readonly batch_parent_id: number;
}

/**
 * Builds the statement that runs `below` once for each parent. The lateral join keeps the row order. `parentIds` may be
 * a slot.
 */
export const batchedRows = <Row>(parentIds: unknown, below: RawBuilder<unknown>): RawBuilder<Row & OfParent> =>
  sql<Row & OfParent>`select batch.parent_id as batch_parent_id, below.*
    from unnest(${parentIds}::bigint[]) as batch (parent_id) cross join lateral (${below}) below`;

/** Builds the statement that counts the rows of `below` for each parent. */
export const batchedCounts = (
  parentIds: unknown,
  below: RawBuilder<unknown>,
): RawBuilder<OfParent & { readonly count: number }> =>
  sql<OfParent & { readonly count: number }>`select batch.parent_id as batch_parent_id,
      (select count(*) from (${below}) below) as count
    from unnest(${parentIds}::bigint[]) as batch (parent_id)`;

interface Text {
  /** Null without rows. */
  readonly text: string | null;
}

/** Builds the statement that reads the rows of `below` as text for each parent, in their order. */
const batchedTexts = (
  parentIds: unknown,
  below: RawBuilder<unknown>,
  columns: readonly TextColumn[],
): RawBuilder<OfParent & Text> =>
  sql<OfParent & Text>`select batch.parent_id as batch_parent_id,
      (select string_agg(${rowText('below', columns)}, ',') from (${below}) below) as text
    from unnest(${parentIds}::bigint[]) as batch (parent_id)`;

const textsByParent = (rows: readonly (OfParent & Text)[]): ReadonlyMap<number, string> =>
  new Map(rows.map(({ batch_parent_id, text }) => [batch_parent_id, text ?? '']));

export const groupedByParent = <Row extends OfParent>(rows: readonly Row[]): ReadonlyMap<number, readonly Row[]> =>
  Map.groupBy(rows, (row) => row.batch_parent_id);
