import { readdir } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { consoleLogFactory, runMigrations as migrateWorker, Logger as WorkerLogger } from 'graphile-worker';
import { Kysely, PostgresDialect, type PostgresPool } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import pg from 'pg';
import { codeOf } from '../files/error-code.ts';
import { StartError } from '../process/start-error.ts';

const MIGRATIONS = new URL('../../../migrations/', import.meta.url);
const LEAST_VERSION = 15;
/** The key of the advisory lock that makes starting processes wait for each other. It must never change. */
const LOCK = 7_210_455_131;
const NOT_PERMITTED = '42501';
/**
 * Operators may set these for the database. A migration may take longer, and another process waits for its lock. Postgres
 * 15 and 16 lack the last one.
 */
const TIMEOUTS = [
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
  'idle_session_timeout',
  'transaction_timeout',
];

/**
 * Updates the database: first the schema of graphile-worker, then all new files of `migrations/`, in one transaction.
 * Processes that start together take turns.
 *
 * @returns the names of the applied migrations
 * @throws Error naming the migration that failed; StartError if the server or the rights of the account do not suffice, or
 *   the database belongs to a later version
 */
export const migrate = async (target: string | pg.Pool): Promise<string[]> => {
  if (typeof target !== 'string') return migrateWith(target);
  const pool = new pg.Pool({ connectionString: target, max: 3 });
  // The pool replaces a dead idle connection, and a dead connection in use rejects its query. No handling is needed.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  try {
    return await migrateWith(pool);
  } finally {
    await pool.end();
  }
};

const migrateWith = async (pool: pg.Pool): Promise<string[]> => {
  const client = await pool.connect();
  let failed = true;
  try {
    await checkServer(client);
    await client.query("SELECT set_config(name, '0', false) FROM pg_settings WHERE name = ANY($1)", [TIMEOUTS]);
    await client.query('SELECT pg_advisory_lock($1)', [LOCK]);
    await migrateWorker({
      pgPool: pool,
      logger: new WorkerLogger((scope) => {
        const write = consoleLogFactory(scope);
        return (level, message, meta) => (level === 'error' ? write(level, message, meta) : undefined);
      }),
    });
    const applied = await migrateSchema(client);
    await client.query('SELECT pg_advisory_unlock($1)', [LOCK]);
    await client.query('SELECT set_config(name, reset_val, false) FROM pg_settings WHERE name = ANY($1)', [TIMEOUTS]);
    failed = false;
    return applied;
  } catch (error) {
    const denied = [error, error instanceof Error ? error.cause : null].find((each) => codeOf(each) === NOT_PERMITTED);
    if (!(denied instanceof Error)) throw error;
    throw new StartError(`${denied.message}: the account in DATABASE_URL must own the database and its tables.`, {
      cause: error,
    });
  } finally {
    // Closing the connection after a failure releases the lock.
    client.release(failed);
  }
};

const checkServer = async (client: pg.PoolClient): Promise<void> => {
  const { rows } = await client.query<{ number: string; version: string; encoding: string }>(
    `SELECT current_setting('server_version_num') AS number, current_setting('server_version') AS version,
            current_setting('server_encoding') AS encoding`,
  );
  const [server] = rows;
  if (!server) throw new Error('The database did not report its version.');
  if (Number(server.number) < LEAST_VERSION * 10_000) {
    throw new StartError(`The database is Postgres ${server.version}; Millrace needs ${LEAST_VERSION} or later.`);
  }
  if (server.encoding !== 'UTF8')
    throw new StartError(`The database is encoded in ${server.encoding}; Millrace needs UTF8.`);
};

/** Uses only `client`, because it has no timeouts. */
const migrateSchema = async (client: pg.PoolClient): Promise<string[]> => {
  if (await isUpToDate(client)) return [];
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: poolOf(client) }),
  });
  const migrator = new Migrator({
    db,
    provider: { getMigrations: readMigrations },
    // A database may come from a time when a branch with lower numbers was not yet merged.
    allowUnorderedMigrations: true,
  });
  const { error, results = [] } = await migrator.migrateToLatest();
  if (error !== undefined) {
    const failed = results.find(({ status }) => status === 'Error');
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(
      failed ? `Migration ${failed.migrationName} failed: ${reason}` : `The database cannot be migrated: ${reason}`,
      { cause: error },
    );
  }
  return results.map(({ migrationName }) => migrationName);
};

/** A pool with this one connection, which stays with the caller. */
const poolOf = (client: pg.PoolClient): PostgresPool => ({
  connect: async () => ({
    query: client.query.bind(client),
    release: () => {},
  }),
  end: async () => {},
  options: {},
});

/**
 * Whether exactly the migrations of this version are applied, as at most starts. Kysely's migrator would find out too, but
 * it reads the columns of all tables twice first, which is half of the database's work at a start.
 */
const isUpToDate = async (client: pg.PoolClient): Promise<boolean> => {
  const { rows } = await client.query<{ exists: boolean }>(
    "SELECT to_regclass('kysely_migration') IS NOT NULL AS exists",
  );
  if (!rows[0]?.exists) return false;
  const applied = await client.query<{ name: string }>('SELECT name FROM kysely_migration');
  const names = Object.keys(await readMigrations());
  const unknown = applied.rows.filter(({ name }) => !names.includes(name));
  if (unknown.length > 0) {
    throw new StartError(
      `The database cannot be migrated: it belongs to a later version of Millrace (${unknown[0]?.name}). Start that version, or restore a backup.`,
    );
  }
  return isDeepStrictEqual(applied.rows.map(({ name }) => name).sort(), names);
};

/** Lists the migrations. Each is loaded when it is applied, because most starts apply none. */
const readMigrations = async (): Promise<Record<string, Migration>> => {
  const files = (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.ts')).sort();
  return Object.fromEntries(
    files.map((file) => {
      const up: Migration['up'] = async (db) => {
        const module: unknown = await import(new URL(file, MIGRATIONS).href);
        if (!isMigration(module)) throw new Error(`migrations/${file} exports no function up.`);
        await module.up(db);
      };
      return [file.slice(0, -'.ts'.length), { up }];
    }),
  );
};

const isMigration = (module: unknown): module is Migration =>
  typeof module === 'object' && module !== null && 'up' in module && typeof module.up === 'function';
