import { createHash } from 'node:crypto';
import { Kysely, type Kysely as KyselyInstance, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { DB } from './tables.ts';

export type Database = KyselyInstance<DB>;

// 64-bit integers as numbers: ids stay far below 2^53. Timestamps stay text (see `rest` and `graphql` scalars: both
// turn the text into its outward form), because making a Date per cell costs more than the rest of the row.
const INT8 = 20;
const NUMERIC = 1700;
const INT8_ARRAY = 1016;
const TEXT_TYPES = [1082, 1114, 1184];
const parsers = new Map<number, (value: string) => unknown>([
  [INT8, Number],
  [NUMERIC, Number],
  ...TEXT_TYPES.map((oid): [number, (value: string) => unknown] => [oid, (value) => value]),
]);

const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => {
    if (format === 'binary') return pg.types.getTypeParser(oid, 'binary');
    if (oid === INT8_ARRAY) {
      const parse = pg.types.getTypeParser(oid, 'text');
      return (value: string) => (parse(value) as readonly string[]).map(Number);
    }
    return parsers.get(oid) ?? pg.types.getTypeParser(oid, 'text');
  },
};

export interface PoolOptions {
  readonly connectionString: string;
  readonly max: number;
  readonly applicationName: string;
}

/**
 * A pool whose statements with parameters are sent as named prepared statements: planning a join costs more than
 * running it. Sessions are pinned to UTC and ISO dates so that timestamps read as text have one form.
 */
export const createPool = ({ connectionString, max, applicationName }: PoolOptions): pg.Pool =>
  new pg.Pool({
    connectionString,
    max,
    types,
    application_name: applicationName,
    options: '-c timezone=UTC -c datestyle=ISO -c plan_cache_mode=force_generic_plan',
    idleTimeoutMillis: 30_000,
    connectionTimeoutMillis: 10_000,
  });

const names = new Map<string, string>();
const MAX_NAMES = 2_000;

/** The name under which a statement is prepared, or undefined once too many shapes were seen to keep them on every connection. */
const statementName = (text: string): string | undefined => {
  let name = names.get(text);
  if (name === undefined && names.size < MAX_NAMES) {
    name = createHash('sha1').update(text).digest('base64url');
    names.set(text, name);
  }
  return name;
};

/** Kysely over the pool. Rows keep the columns' names: snake_case, as the specification speaks. */
export const createDatabase = (pool: pg.Pool): Database =>
  new Kysely<DB>({
    dialect: new PostgresDialect({
      pool: {
        connect: async () => {
          const client = await pool.connect();
          return {
            query: (text: unknown, values?: readonly unknown[]) => {
              if (typeof text !== 'string') return client.query(text as never);
              const name = values && values.length > 0 ? statementName(text) : undefined;
              return client.query({ text, values: values as unknown[], ...(name ? { name } : {}) });
            },
            release: () => client.release(),
          };
        },
        end: () => Promise.resolve(),
      } as never,
    }),
  });
