import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { removeEmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { isAlive, processKey } from '#platform/db/embedded-lock.ts';
import { migrate } from '#platform/db/migrate.ts';
import { createLogger } from '#platform/log.ts';
import { withDatabase } from './database-url.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The migrated database that each test file clones, and an address of the server it is on. */
    testDatabase: { adminUrl: string; template: string };
  }
}

const PREFIX = 'millrace-test-';

/** One Postgres for the run (or the one of TEST_DATABASE_URL), with a migrated template database. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer();
  const template = `millrace_template_${randomBytes(4).toString('hex')}`;
  const teardown = async () => {
    await query(server.url, `ALTER DATABASE ${template} IS_TEMPLATE false`).catch(() => {});
    await query(server.url, `DROP DATABASE IF EXISTS ${template} WITH (FORCE)`).catch(() => {});
    await server.stop();
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

const startServer = async (): Promise<{ url: string; stop(): Promise<void> }> => {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return { url: given, stop: async () => {} };
  await sweep();
  const dataDir = join(tmpdir(), `${PREFIX}${processKey()}`);
  await mkdir(dataDir, { mode: 0o711 });
  const server = await startEmbeddedPostgres({ dataDir, log: createLogger('warn'), durable: false });
  return {
    url: server.connectionString,
    stop: async () => {
      await server.destroy();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
};

/** Ends the servers of test runs that were killed. */
const sweep = async (): Promise<void> => {
  for (const name of await readdir(tmpdir())) {
    const [pid, startedAt] = name.startsWith(PREFIX) ? name.slice(PREFIX.length).split('-') : [];
    if (pid === undefined || startedAt === undefined || isAlive(Number(pid), startedAt)) continue;
    await removeEmbeddedPostgres(join(tmpdir(), name));
    await rm(join(tmpdir(), name), { recursive: true, force: true });
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
