import { readdir } from 'node:fs/promises';
import { consoleLogFactory, runMigrations as migrateWorker, Logger as WorkerLogger } from 'graphile-worker';
import { Kysely, PostgresDialect } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import pg from 'pg';

const MIGRATIONS = new URL('../../../migrations/', import.meta.url);
const LEAST_VERSION = 15;
/** Any number, as long as it stays: processes that start together wait for each other under it. */
const LOCK = 7_210_455_131;

/**
 * Brings the database up to date: graphile-worker's schema first, then the files of `migrations/` not yet applied, in
 * one transaction. Returns their names. Processes that start together take turns. Throws an error that names the
 * migration that failed, and for a server that is too old or not in UTF-8 (issue 2 §2).
 */
export const migrate = async (target: string | pg.Pool): Promise<string[]> => {
  if (typeof target !== 'string') return migrateWith(target);
  const pool = new pg.Pool({ connectionString: target, max: 3 });
  // A connection that dies is replaced when idle, and rejects its query when in use: nothing else to do.
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
    await client.query('SELECT pg_advisory_lock($1)', [LOCK]);
    await migrateWorker({
      pgPool: pool,
      logger: new WorkerLogger((scope) => {
        const write = consoleLogFactory(scope);
        return (level, message, meta) => (level === 'error' ? write(level, message, meta) : undefined);
      }),
    });
    const applied = await migrateSchema(pool);
    await client.query('SELECT pg_advisory_unlock($1)', [LOCK]);
    failed = false;
    return applied;
  } finally {
    // Closing the connection frees the lock whatever happened.
    client.release(failed);
  }
};

const checkServer = async (client: pg.PoolClient): Promise<void> => {
  const { rows } = await client.query<{ number: string; version: string; encoding: string }>(
    `SELECT current_setting('server_version_num') AS number, current_setting('server_version') AS version,
            current_setting('server_encoding') AS encoding`,
  );
  const [server] = rows;
  if (!server) throw new Error('The database does not tell its version.');
  if (Number(server.number) < LEAST_VERSION * 10_000) {
    throw new Error(`The database is Postgres ${server.version}; Millrace needs ${LEAST_VERSION} or later.`);
  }
  if (server.encoding !== 'UTF8')
    throw new Error(`The database is encoded in ${server.encoding}; Millrace needs UTF8.`);
};

const migrateSchema = async (pool: pg.Pool): Promise<string[]> => {
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool }),
  });
  const migrator = new Migrator({ db, provider: { getMigrations: readMigrations } });
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

const readMigrations = async (): Promise<Record<string, Migration>> => {
  const migrations: Record<string, Migration> = {};
  for (const file of (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.ts')).sort()) {
    const module: unknown = await import(new URL(file, MIGRATIONS).href);
    if (!isMigration(module)) throw new Error(`migrations/${file} exports no function up.`);
    migrations[file.slice(0, -'.ts'.length)] = { up: (db) => module.up(db) };
  }
  return migrations;
};

const isMigration = (module: unknown): module is Migration =>
  typeof module === 'object' && module !== null && 'up' in module && typeof module.up === 'function';
