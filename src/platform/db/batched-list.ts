import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { Context } from '../context.ts';
import type { CursorValues } from '../cursor.ts';
import type { SortDirection } from '../paging.ts';
import { CompiledStatements, runCompiled, slot } from './compiled.ts';
import { badCursor, isBadCursor, type SortKey, type Window, windowOf } from './list.ts';
import type { Database } from './pool.ts';
import type { DB } from './tables.ts';

/**
 * The same list below each of many parents, such as the projects of each group on a page. One statement reads all of
 * them, and each parent has its own window. GraphQL reads it with `batchedConnection`.
 */
export interface BatchedList<Row> {
  /** Parents without rows may be missing from the map. */
  rows(parentIds: readonly number[], window: Window): Promise<ReadonlyMap<number, readonly Row[]>>;
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
  compiled?: CompiledAs,
): BatchedList<Row> => ({
  rows: async (parentIds, window) => {
    try {
      const page = () => sql`${windowOf(below(PARENT), keys, direction, window)}`;
      if (compiled && !window.after && !window.before) {
        const shape = `${compiled.shape}|${direction}|${window.limit}|${window.offset ?? 0}|${window.backwards}`;
        const statement = statements.get(compiled.ctx, shape, () => batchedRows<Row>(slot('parents'), page()));
        return groupedByParent(await runCompiled<Row & OfParent>(compiled.ctx, statement, { parents: parentIds }));
      }
      const { rows } = await batchedRows<Row>(parentIds, page()).execute(db);
      return groupedByParent(rows);
    } catch (error) {
      throw isBadCursor(error, window) ? badCursor() : error;
    }
  },
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

export const groupedByParent = <Row extends OfParent>(rows: readonly Row[]): ReadonlyMap<number, readonly Row[]> =>
  Map.groupBy(rows, (row) => row.batch_parent_id);
