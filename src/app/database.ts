import { access, constants, mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import pg from 'pg';
import { type Config, ConfigError } from '#platform/config/config.ts';
import { startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { SESSION_SETTINGS, sessionOptions } from '#platform/db/pool.ts';
import { codeOf } from '#platform/files/error-code.ts';
import type { Logger } from '#platform/log.ts';

export interface OpenDatabase {
  readonly connectionString: string;
  /** Returns an error that says what to do, if the embedded Postgres failed, such as for lack of space. */
  failure(): Promise<Error | null>;
  /** Stops the embedded Postgres, unless another hub uses it. */
  stop(): Promise<void>;
}

/**
 * Creates the data directory, and starts the embedded Postgres if no other database is configured.
 *
 * @throws ConfigError if the configured database cannot be reached, or only through a pooler that drops settings
 */
export const openDatabase = async (config: Config, log: Logger): Promise<OpenDatabase> => {
  await makeDataDir(config.dataDir);
  if (config.databaseUrl === null) return startEmbeddedPostgres({ dataDir: config.dataDir, log, restart: true });
  const connectionString = withTlsOfLibpq(config.databaseUrl);
  await requireConnection(connectionString);
  return { connectionString, failure: async () => null, stop: async () => {} };
};

/**
 * Lets `sslmode` mean what it means to psql and in the URLs of providers: `require` encrypts, but does not check the
 * certificate. Otherwise pg treats all modes as `verify-full`, and warns about that.
 */
const withTlsOfLibpq = (url: string): string =>
  /[?&]sslmode=(prefer|require|verify-ca)(&|$)/.test(url) ? `${url}&uselibpqcompat=true` : url;

const requireConnection = async (connectionString: string): Promise<void> => {
  try {
    const client = new pg.Client({
      connectionString,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      options: sessionOptions(SESSION_SETTINGS),
    });
    // A connection that breaks while it is closed does no harm.
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query<typeof SESSION_SETTINGS>('show plan_cache_mode');
    await client.end();
    if (rows[0]?.plan_cache_mode !== SESSION_SETTINGS.plan_cache_mode)
      throw new Error('a pooler drops the settings of the session; connect directly to Postgres');
  } catch (error) {
    throw new ConfigError(`DATABASE_URL (--database-url): cannot connect to the database: ${problemOf(error)}`, {
      cause: error,
    });
  }
};

/** A name with several addresses fails with one error for each, and no message of its own. */
const problemOf = (error: unknown): string => {
  if (error instanceof AggregateError) return error.errors.map(problemOf).join('; ');
  return error instanceof Error ? error.message : String(error);
};

const CONNECT_TIMEOUT_MS = 10_000;

/** @throws ConfigError if it cannot be created or written */
const makeDataDir = async (dataDir: string): Promise<void> => {
  try {
    // Other accounts must be able to pass through: embedded Postgres uses another account if root starts the hub.
    await mkdir(dataDir, { recursive: true, mode: 0o711 }).catch(async (error: unknown) => {
      // On a read-only disk, Node reports that the folder above is missing.
      if (codeOf(error) === 'ENOENT') await requireWritable(dirname(dataDir));
      throw error;
    });
    await requireWritable(dataDir);
  } catch (error) {
    if (!(error instanceof Error) || codeOf(error) === null) throw error;
    throw new ConfigError(`MILLRACE_DATA_DIR (--data-dir) cannot be used: ${error.message}`, { cause: error });
  }
};

/** Checks the folder, or the nearest one above it that exists. */
const requireWritable = (folder: string): Promise<void> =>
  access(folder, constants.W_OK | constants.X_OK).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT' && dirname(folder) !== folder) return requireWritable(dirname(folder));
    throw error;
  });
