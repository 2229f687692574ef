import { mkdir } from 'node:fs/promises';
import type { Config } from '#platform/config/config.ts';
import { startEmbeddedPostgres } from '#platform/db/embedded.ts';
import type { Logger } from '#platform/log.ts';

export interface OpenDatabase {
  readonly connectionString: string;
  /** Stops the embedded Postgres, unless another hub uses it. */
  stop(): Promise<void>;
}

/** Creates the data directory, and starts the embedded Postgres if no other database is configured. */
export const openDatabase = async (config: Config, log: Logger): Promise<OpenDatabase> => {
  // Other accounts must be able to pass through: embedded Postgres uses another account if root starts the hub.
  await mkdir(config.dataDir, { recursive: true, mode: 0o711 });
  if (config.databaseUrl !== null) return { connectionString: config.databaseUrl, stop: async () => {} };
  return startEmbeddedPostgres({ dataDir: config.dataDir, log });
};
