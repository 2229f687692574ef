import { sql } from 'kysely';
import type { Context, Services } from '#platform/context.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import type { ProjectColumns } from './model.ts';
import { projectColumns, type RowVersion } from './select.ts';

/**
 * A project has about ninety columns, and sending, parsing and building them costs more than finding the project. So
 * statements that want whole rows ask for the version of each (`xmin` and `ctid`: every update makes another), and the
 * columns of a version that was read before are taken from memory. Nothing is ever stale: which rows there are, in
 * which version, and who may see them, the database says each time.
 */
const MAX_ROWS = 2_000;
const caches = new WeakMap<Services, Map<number, Cached>>();

interface Cached extends RowVersion {
  readonly columns: ProjectColumns;
}

/** Each row with its columns; one that was deleted a moment ago is left out. */
export const withColumns = async <Row extends RowVersion & { readonly id: number }>(
  ctx: Context,
  rows: readonly Row[],
): Promise<(Row & ProjectColumns)[]> => {
  const cache = caches.get(ctx.services) ?? new Map<number, Cached>();
  caches.set(ctx.services, cache);
  const missing = rows.filter((row) => !isSame(cache.get(row.id), row)).map((row) => row.id);
  const read = missing.length > 0 ? await readColumns(ctx, missing) : null;
  if (read) for (const cached of read.values()) remember(cache, cached);
  return rows.flatMap((row) => {
    const cached = read?.get(row.id) ?? cache.get(row.id);
    // The columns first: V8 copies the shape of the first part whole.
    return cached ? [{ ...cached.columns, ...row }] : [];
  });
};

const isSame = (cached: Cached | undefined, row: RowVersion): boolean =>
  cached !== undefined && cached.row_xmin === row.row_xmin && cached.row_ctid === row.row_ctid;

const remember = (cache: Map<number, Cached>, cached: Cached): void => {
  const [oldest] = cache.size >= MAX_ROWS ? cache.keys() : [];
  if (oldest !== undefined) cache.delete(oldest);
  cache.set(cached.columns.id, cached);
};

const statements = new CompiledStatements();

const readColumns = async (ctx: Context, ids: readonly number[]): Promise<ReadonlyMap<number, Cached>> => {
  const statement = statements.get(ctx, 'columns', () => {
    const columns = sql.join(projectColumns.map((column) => sql.ref(`projects.${column}`)));
    return sql`select ${columns}, projects.xmin as row_xmin, projects.ctid as row_ctid
      from projects where projects.id = any (${slot('ids')}::bigint[])`;
  });
  const rows = await runCompiled<ProjectColumns & RowVersion>(ctx, statement, { ids });
  return new Map(
    rows.map(({ row_xmin, row_ctid, ...columns }) => [columns.id, { row_xmin, row_ctid, columns }] as const),
  );
};
