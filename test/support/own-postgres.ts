import { chmod } from 'node:fs/promises';
import { dirname } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { createLogger } from '#platform/log.ts';
import { restoreCluster } from './cached-cluster.ts';
import { withDatabase } from './database-url.ts';

/** The name of the migrated database in the cached cluster. */
export const TEMPLATE = 'millrace_template';

/**
 * Starts a durable Postgres server for tests that kill it. The database is already migrated if a cluster is cached.
 * Otherwise the first hub migrates it.
 *
 * @param dataDir A path in a directory of its own, which the account of Postgres may then enter
 */
export const startOwnPostgres = async (dataDir: string): Promise<EmbeddedPostgres> => {
  await chmod(dirname(dataDir), 0o711);
  const restored = await restoreCluster(dataDir);
  const server = await startEmbeddedPostgres({ dataDir, log: createLogger('silent') });
  if (restored) await copyTemplate(server.connectionString);
  return server;
};

const copyTemplate = async (url: string): Promise<void> => {
  const database = new URL(url).pathname.slice(1);
  const client = new pg.Client({ connectionString: withDatabase(url, 'postgres') });
  await client.connect();
  try {
    await client.query(`DROP DATABASE ${database}`);
    await client.query(`CREATE DATABASE ${database} TEMPLATE ${TEMPLATE} STRATEGY file_copy`);
  } finally {
    await client.end();
  }
};
