import { sql } from 'kysely';
import type { Database } from '#platform/db/pool.ts';
import type { Row } from './columns.ts';

/**
 * Inserts rows with one array parameter per column. The statement does not depend on the number of rows, so it is
 * planned once. Values are strings, numbers, booleans or null; JSON is passed as a string, and an array as `arrayText`.
 */
export const insertRows = async (
  db: Database,
  table: string,
  types: Readonly<Record<string, string>>,
  rows: readonly Row[],
  { unlessThere = false }: { readonly unlessThere?: boolean } = {},
): Promise<void> => {
  if (rows.length === 0) return;
  const columns = Object.entries(types);
  const literals = columns.map(([column]) => arrayLiteral(rows, column));
  // Postgres has no arrays of arrays, so these travel as text.
  const arrays = columns.map(([, type], index) => sql`${literals[index]}::${sql.raw(isArray(type) ? 'text' : type)}[]`);
  const names = sql.join(columns.map(([column]) => sql.ref(column)));
  const values = columns.map(([column, type]) =>
    isArray(type) ? sql`${sql.ref(column)}::${sql.raw(type)}` : sql.ref(column),
  );
  await sql`insert into ${sql.table(table)} (${names})
    select ${sql.join(values)} from unnest(${sql.join(arrays)}) as given (${names})
    ${sql.raw(unlessThere ? 'on conflict do nothing' : '')}`.execute(db);
};

const isArray = (type: string): boolean => type.endsWith('[]');

/** Returns texts as an array in Postgres notation. */
export const arrayText = (values: readonly string[]): string =>
  `{${values.map((value) => `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;

/** Returns bytes in Postgres notation. */
export const byteaText = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;

/** Returns an array in Postgres notation. Unlike pg, it escapes only the elements that need it. */
const arrayLiteral = (rows: readonly Row[], column: string): string => {
  let literal = '';
  for (const row of rows) {
    const value = row[column];
    if (literal !== '') literal += ',';
    if (value === null || value === undefined) literal += 'NULL';
    else if (typeof value !== 'string') literal += String(value);
    else literal += SPECIAL.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : `"${value}"`;
  }
  return `{${literal}}`;
};

const SPECIAL = /["\\]/;

/** Reserves ids for new rows of the table, so that rows that refer to them can be written together with them. */
export const takeIds = async (db: Database, table: string, count: number): Promise<number[]> => {
  if (count === 0) return [];
  const { rows } = await sql<{ id: number }>`
    select nextval(pg_get_serial_sequence(${table}, 'id')) as id from generate_series(1, ${count}::int)`.execute(db);
  return rows.map((row) => row.id);
};
