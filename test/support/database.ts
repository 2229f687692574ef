import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { inject } from 'vitest';
import { tolerateLosses } from '#platform/db/pool.ts';
import { withDatabase } from './database-url.ts';
import { writeReached } from './reached.ts';
import { PATIENCE_MS } from './until.ts';

export interface TestDatabase {
  readonly url: string;
  /** Closes remaining connections and drops the database. */
  drop(): Promise<void>;
}

const OBJECT_IN_USE = '55006';

/** Creates a migrated database by cloning the template of global-setup.ts. */
export const createTestDatabase = (): Promise<TestDatabase> =>
  create(`TEMPLATE ${inject('testDatabase').template} STRATEGY file_copy`);

/** Creates a migrated database with the administrator of the tests, for whole hubs. */
export const createHubDatabase = (): Promise<TestDatabase> =>
  create(`TEMPLATE ${inject('testDatabase').hubTemplate} STRATEGY file_copy`);

/** Creates an empty database, for tests of the migrations themselves. */
export const createEmptyDatabase = (options = ''): Promise<TestDatabase> => create(`TEMPLATE template0 ${options}`);

const create = async (options: string): Promise<TestDatabase> => {
  const { adminUrl } = inject('testDatabase');
  const name = `millrace_${randomBytes(6).toString('hex')}`;
  await onServer(adminUrl, `CREATE DATABASE ${name} ${options}`);
  return {
    url: withDatabase(adminUrl, name),
    drop: async () => {
      writeReached();
      await onServer(adminUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
};

/** Shared by all files of this process. A connection for each statement would take a third of its time. */
let server: pg.Pool | undefined;

const onServer = async (url: string, text: string): Promise<void> => {
  server ??= tolerateLosses(new pg.Pool({ connectionString: url, max: 2, allowExitOnIdle: true }));
  for (const deadline = performance.now() + PATIENCE_MS; ; ) {
    try {
      await server.query(text);
      return;
    } catch (error) {
      const busy = error instanceof pg.DatabaseError && error.code === OBJECT_IN_USE;
      if (!busy || performance.now() > deadline) throw error;
      await sleep(20);
    }
  }
};
