import { type RawBuilder, sql } from 'kysely';
import { defineCache } from '../cache.ts';
import type { Context } from '../context.ts';
import { CompiledStatements, runCompiled, slot } from './compiled.ts';

/** The version of a row, which every update changes. Select it with `versionOf`. */
export interface RowVersion {
  readonly row_xmin: number | string;
  readonly row_ctid: string;
}

/** A row with its cached columns. */
export interface Remembered {
  /** One immutable object per version of the row. Values derived from the columns can be cached by it. */
  readonly remembered: object;
}

/** The columns that identify the version of a row of the table. */
export const versionOf = (table: string): RawBuilder<unknown> =>
  sql`${sql.ref(`${table}.xmin`)} as row_xmin, ${sql.ref(`${table}.ctid`)} as row_ctid`;

const MAX_ROWS = 2_000;

interface Cached<Columns> extends RowVersion {
  readonly columns: Columns;
}

/**
 * Caches the rows of a table with many columns: sending, parsing and building them costs more than finding them.
 * Statements that want whole rows select only their versions, and known versions come from memory. Nothing is ever
 * stale: the database decides each time which rows exist, in which version, and who may see them (docs/decisions/0007).
 */
export const createRowCache = <Columns extends { readonly id: number }>(
  table: string,
  columns: RawBuilder<unknown>,
  maxRows = MAX_ROWS,
) => {
  const cacheOf = defineCache<number, Cached<Columns>>({ name: `rows of ${table}`, limit: maxRows });
  const statements = new CompiledStatements();

  const read = async (ctx: Context, ids: readonly number[]): Promise<ReadonlyMap<number, Cached<Columns>>> => {
    const statement = statements.get(
      ctx,
      table,
      () => sql`select ${columns}, ${versionOf(table)} from ${sql.table(table)}
        where ${sql.ref(`${table}.id`)} = any (${slot('ids')}::bigint[])`,
    );
    const rows = await runCompiled<Columns & RowVersion>(ctx, statement, { ids });
    return new Map(
      rows.map((row) => [row.id, { row_xmin: row.row_xmin, row_ctid: row.row_ctid, columns: row }] as const),
    );
  };

  /** Adds the columns to each row. Leaves out rows that have just been deleted. */
  return async <Row extends RowVersion & { readonly id: number }>(
    ctx: Context,
    rows: readonly Row[],
  ): Promise<(Columns & Row & Remembered)[]> => {
    const cache = cacheOf(ctx.services);
    // Kept here, because insertions below or by other callers may evict them from the cache.
    const wanted = new Map<number, Cached<Columns>>();
    const missing: number[] = [];
    for (const row of rows) {
      const cached = cache.get(row.id);
      if (cached && isSame(cached, row)) wanted.set(row.id, cached);
      else missing.push(row.id);
    }
    if (missing.length > 0) {
      for (const [id, cached] of await read(ctx, missing)) {
        wanted.set(id, cached);
        cache.set(id, cached);
      }
    }
    return rows.flatMap((row) => {
      const cached = wanted.get(row.id);
      // Columns first: V8 copies the shape of the first part as a whole.
      return cached ? [{ ...cached.columns, ...row, remembered: cached.columns }] : [];
    });
  };
};

const isSame = (cached: RowVersion, row: RowVersion): boolean =>
  cached.row_xmin === row.row_xmin && cached.row_ctid === row.row_ctid;
