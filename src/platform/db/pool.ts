import { createHash } from 'node:crypto';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import type { DB } from './tables.ts';

export type Database = Kysely<DB>;

// 64-bit integers become numbers: ids stay far below 2^53. Times stay text, because creating a Date per cell costs more
// than the rest of the row. platform/time.ts converts them to their API formats.
const asNumber = (value: string): number => Number(value);
const asText = (value: string): string => value;
const asNumbers = (value: string): number[] => (value === '{}' ? [] : value.slice(1, -1).split(',').map(Number));
const parsers = new Map<number, (value: string) => unknown>([
  [pg.types.builtins.INT8, asNumber],
  [pg.types.builtins.NUMERIC, asNumber],
  [pg.types.builtins.DATE, asText],
  [pg.types.builtins.TIMESTAMP, asText],
  [pg.types.builtins.TIMESTAMPTZ, asText],
  [1016, asNumbers], // int8[]
]);

const types: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    (format === 'binary' ? undefined : parsers.get(oid)) ??
    pg.types.getTypeParser(oid, format === 'binary' ? 'binary' : 'text'),
};

/** The settings of every session, which the conversion of times relies on. */
export const SESSION_SETTINGS = { timezone: 'UTC', datestyle: 'ISO', plan_cache_mode: 'force_generic_plan' };

/** Finds a server that vanished without a word, such as after a failover. */
export const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const;

export interface PoolOptions {
  readonly connectionString: string;
  readonly max: number;
  readonly applicationName: string;
  /** Further settings of each session, such as `enable_seqscan: 'off'`. */
  readonly sessionSettings?: Readonly<Record<string, string>>;
  /** Called for each connection that is lost. */
  readonly onLoss?: () => void;
}

/**
 * Creates a pool that sends statements with parameters as named prepared statements, because planning a join costs more
 * than running it. Sessions use UTC and ISO dates, so that times read as text have one format.
 */
export const createPool = ({
  connectionString,
  max,
  applicationName,
  sessionSettings = {},
  onLoss,
}: PoolOptions): pg.Pool => {
  const pool = new pg.Pool({
    connectionString,
    max,
    types,
    pipeline: true, // for `queryTogether`
    application_name: applicationName,
    options: sessionOptions({ ...SESSION_SETTINGS, ...sessionSettings }),
    idleTimeoutMillis: 30_000,
    // A new connection starts without the statements that are no longer in use.
    maxLifetimeSeconds: 600,
    connectionTimeoutMillis: 10_000,
    ...keepAlive,
  });
  pool.on('connect', prepareStatements);
  // A new pool holds no statements yet. In tests, each hub of a process would otherwise use up the names of the next.
  names.clear();
  uses.clear();
  return tolerateLosses(pool, onLoss);
};

/** Returns settings as the `options` of a connection. */
export const sessionOptions = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ');

/**
 * Handles connection losses. A lost connection fails its running statement, and the pool replaces it. It also emits an
 * `error` event, even for clients in use, and an unhandled `error` event would end the process.
 */
export const tolerateLosses = (pool: pg.Pool, onLoss: (error: Error) => void = () => {}): pg.Pool => {
  pool.on('error', onLoss);
  pool.on('connect', (client) => client.on('error', onLoss));
  return pool;
};

/** Returns what the pool connects to, for connections beside it. */
export const connectionStringOf = (pool: pg.Pool): string => {
  const { connectionString } = pool.options;
  if (connectionString === undefined) throw new Error('the pool was created without a connection string');
  return connectionString;
};

/** Creates Kysely over the pool. Rows keep the snake_case column names, as the specification does. */
export const createDatabase = (pool: pg.Pool): Database => new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });

/** A statement that is prepared under `name`. Without a name it is planned each time. */
export interface Statement {
  readonly name: string | undefined;
  readonly text: string;
  readonly values: unknown[];
}

/**
 * Sends two statements on one connection without waiting for the first result, which saves a round trip. They run in
 * order, each with its own snapshot. If either fails, no result is returned.
 */
export const queryTogether = async <First extends object, Second extends object>(
  pool: pg.Pool,
  first: Statement,
  second: Statement,
): Promise<[First[], Second[]]> => {
  const client = await pool.connect();
  try {
    const [{ rows: firstRows }, { rows: secondRows }] = await Promise.all([
      client.query<First>(first),
      client.query<Second>(second),
    ]);
    client.release();
    return [firstRows, secondRows];
  } catch (error) {
    client.release(error instanceof Error ? error : true);
    throw error;
  }
};

/** Names the statements, because neither Kysely nor pg does, and only named statements are planned once. */
const prepareStatements = (client: pg.PoolClient): void => {
  const query = client.query;
  const prepared = (...args: unknown[]): unknown => {
    const [text, values, ...rest] = args;
    // Without parameters the text may hold several statements, which cannot be prepared. Callers can name a single one.
    if (typeof text !== 'string' || !Array.isArray(values) || values.length === 0)
      return Reflect.apply(query, client, args);
    return Reflect.apply(query, client, [{ text, values, name: statementName(text) }, ...rest]);
  };
  Object.defineProperty(client, 'query', { value: prepared, configurable: true });
};

const names = new Map<string, string>();
/** How often texts without a name were sent. */
const uses = new Map<string, number>();
/** Postgres keeps 350 kB for a statement in the mean, on every connection that it was sent on. */
const MAX_NAMES = 500;
const USES_UNTIL_PREPARED = 3;
const MAX_COUNTED = 2_000;

/**
 * Returns the name under which a statement is prepared. Returns undefined for the first two uses, because most shapes of
 * lists are never seen again, and if too many statements are prepared already.
 */
export const statementName = (text: string): string | undefined => {
  const known = names.get(text);
  if (known !== undefined || names.size >= MAX_NAMES) return known;
  const count = (uses.get(text) ?? 0) + 1;
  if (count < USES_UNTIL_PREPARED) {
    if (uses.size >= MAX_COUNTED) uses.clear();
    uses.set(text, count);
    return undefined;
  }
  uses.delete(text);
  const name = createHash('sha1').update(text).digest('base64url');
  names.set(text, name);
  return name;
};
