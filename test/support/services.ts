import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Caches } from '#platform/cache.ts';
import { Answers } from '#platform/caller/answers.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { readConfig } from '#platform/config/config.ts';
import type { Services } from '#platform/context.ts';
import { createDatabase, createPool } from '#platform/db/pool.ts';
import { createGit } from '#platform/git/git.ts';
import { createHttpClient } from '#platform/http-client/http-client.ts';
import { createLogger, type LogLevel } from '#platform/log.ts';
import { createStorage } from '#platform/storage/create-storage.ts';

export interface TestServices extends AsyncDisposable {
  readonly services: Services;
}

/**
 * Creates the services of a hub process on the given database and a temporary directory, for tests of the platform.
 */
export const createTestServices = async (
  databaseUrl: string,
  { clock = systemClock, logLevel = 'silent', max = 10 }: { clock?: Clock; logLevel?: LogLevel; max?: number } = {},
): Promise<TestServices> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-services-'));
  const log = createLogger(logLevel);
  const pool = createPool({ connectionString: databaseUrl, max, applicationName: 'millrace test' });
  const http = createHttpClient();
  const services: Services = {
    config: readConfig([], { MILLRACE_DATA_DIR: dataDir, DATABASE_URL: databaseUrl }),
    pool,
    db: createDatabase(pool),
    storage: createStorage({ kind: 'local', directory: join(dataDir, 'storage'), durable: false }),
    git: createGit({ root: join(dataDir, 'repositories'), log, durable: false }),
    caches: new Caches(),
    http,
    answers: new Answers(),
    clock,
    log,
    urls: { base: 'http://millrace.test' },
    secretKey: randomBytes(32),
    processId: randomUUID(),
  };
  return {
    services,
    [Symbol.asyncDispose]: async () => {
      await http.close();
      await services.git.close();
      await pool.end();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
};
