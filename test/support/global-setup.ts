import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { removeEmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { isAlive, processKey } from '#platform/db/embedded-lock.ts';
import { migrate } from '#platform/db/migrate.ts';
import { createLogger } from '#platform/log.ts';
import { withDatabase } from './database-url.ts';
import { temporaryRoot, temporaryRoots } from './temporary-root.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The migrated database that each test file clones, and an address of the server it is on. */
    testDatabase: { adminUrl: string; template: string };
  }
}

const PREFIX = 'millrace-test-';

/**
 * One directory for everything the run writes, and in it one Postgres (or the one of TEST_DATABASE_URL) with a migrated
 * template database.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await sweep();
  const directory = join(await temporaryRoot(), `${PREFIX}${processKey()}`);
  // Passable for others: the embedded Postgres runs under another account where root starts the tests.
  await mkdir(directory, { mode: 0o711 });
  // The workers inherit it: their data directories, repositories and clones go where the database is.
  process.env.TMPDIR = directory;
  const server = await startServer(directory);
  const template = `millrace_template_${randomBytes(4).toString('hex')}`;
  const teardown = async () => {
    await query(server.url, `ALTER DATABASE ${template} IS_TEMPLATE false`).catch(() => {});
    await query(server.url, `DROP DATABASE IF EXISTS ${template} WITH (FORCE)`).catch(() => {});
    await server.stop();
    await rm(directory, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    await query(server.url, `CREATE DATABASE ${template}`);
    await migrate(withDatabase(server.url, template));
    await query(server.url, `ALTER DATABASE ${template} IS_TEMPLATE true ALLOW_CONNECTIONS false`);
  } catch (error) {
    await teardown();
    throw error;
  }
  project.provide('testDatabase', { adminUrl: server.url, template });
  return teardown;
}

const startServer = async (directory: string): Promise<{ url: string; stop(): Promise<void> }> => {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return { url: given, stop: async () => {} };
  const server = await startEmbeddedPostgres({ dataDir: directory, log: createLogger('warn'), durable: false });
  return { url: server.connectionString, stop: () => server.destroy() };
};

/** Ends the servers of test runs that were killed, and removes what they left. */
const sweep = async (): Promise<void> => {
  for (const root of temporaryRoots()) {
    for (const name of await readdir(root).catch(() => [])) {
      const [pid, startedAt] = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-') : [];
      if (pid === undefined || startedAt === undefined || isAlive(Number(pid), startedAt)) continue;
      await removeEmbeddedPostgres(join(root, name));
      await rm(join(root, name), { recursive: true, force: true });
    }
  }
};

const query = async (url: string, text: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
};
