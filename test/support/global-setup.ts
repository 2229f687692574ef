import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { followers } from '#app/events.ts';
import { seedAdministrator } from '#domains/tokens/seed.ts';
import { systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { removeEmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { isAlive, processKey } from '#platform/db/embedded-lock.ts';
import { migrate } from '#platform/db/migrate.ts';
import { createLogger } from '#platform/log.ts';
import { ADMIN_TOKEN, PASSWORD } from './administrator.ts';
import { cacheCluster, restoreCluster } from './cached-cluster.ts';
import { withDatabase } from './database-url.ts';
import { TEMPLATE } from './own-postgres.ts';
import { createTestServices } from './services.ts';
import { temporaryRoot, temporaryRoots } from './temporary-root.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /**
     * The URL of the server, and the databases that tests clone: a migrated one, and one that a hub was started on.
     */
    testDatabase: { adminUrl: string; template: string; hubTemplate: string };
  }
}

const PREFIX = 'millrace-test-';

/**
 * Creates a directory for everything the run writes. In it, starts a Postgres server (unless TEST_DATABASE_URL names
 * one) with a migrated template database, from a copy that an earlier run left if the migrations are the same.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await sweep();
  const directory = join(await temporaryRoot(), `${PREFIX}${processKey()}`);
  // Others must be able to enter it: if root runs the tests, the embedded Postgres runs as another account.
  await mkdir(directory, { mode: 0o711 });
  // Workers inherit this, so their data directories, repositories and clones are created there too.
  process.env.TMPDIR = directory;
  const server = await startServer(directory);
  const { template } = server;
  const hubTemplate = `${template}_hub`;
  const teardown = async () => {
    for (const name of server.isOurs ? [] : [template, hubTemplate]) {
      await query(server.url, `ALTER DATABASE ${name} IS_TEMPLATE false`).catch(() => {});
      await query(server.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).catch(() => {});
    }
    await server.stop();
    await rm(directory, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    if (!server.isOurs) await createTemplate(server);
    await query(server.url, `CREATE DATABASE ${hubTemplate} TEMPLATE ${template} STRATEGY file_copy`);
    await seed(withDatabase(server.url, hubTemplate));
    for (const name of [template, hubTemplate]) {
      await query(server.url, `ALTER DATABASE ${name} IS_TEMPLATE true ALLOW_CONNECTIONS false`);
    }
  } catch (error) {
    await teardown();
    throw error;
  }
  project.provide('testDatabase', { adminUrl: server.url, template, hubTemplate });
  return teardown;
}

/** Seeds the database of every test hub, because hashing the administrator's password for each is expensive. */
const seed = async (url: string): Promise<void> => {
  await using held = await createTestServices(url);
  const ctx = createContextFactory(held.services)({ actor: systemActor });
  await seedAdministrator(ctx, { password: PASSWORD, token: ADMIN_TOKEN });
  // Delete groups at once, unless a test sets a delay.
  await ctx.db
    .updateTable('application_settings')
    .set({ attributes: sql`attributes || '{"deletion_adjourned_period": 0}'::jsonb` })
    .execute();
  // Otherwise every test hub would start with a transaction of each follower for the administrator's events.
  await sql`select sequence_events()`.execute(ctx.db);
  await sql`
    insert into event_cursors (name, position)
    select name, last_position from unnest(${followers.map(({ name }) => name)}::text[]) as name, event_log`.execute(
    ctx.db,
  );
};

interface Server {
  readonly url: string;
  /** The name of the migrated database. Our own server has it from the start. */
  readonly template: string;
  /** Whether the server, with all its databases, is removed after the run. */
  readonly isOurs: boolean;
  stop(): Promise<void>;
}

const createTemplate = async ({ url, template }: Pick<Server, 'url' | 'template'>): Promise<void> => {
  await query(url, `CREATE DATABASE ${template}`);
  await migrate(withDatabase(url, template));
};

const startServer = async (directory: string): Promise<Server> => {
  const given = process.env.TEST_DATABASE_URL;
  const template = TEMPLATE;
  if (given) {
    const ownName = `${template}_${randomBytes(4).toString('hex')}`;
    return { url: given, template: ownName, isOurs: false, stop: async () => {} };
  }
  const start = () => startEmbeddedPostgres({ dataDir: directory, log: createLogger('warn'), durable: false });
  if (!(await restoreCluster(directory))) {
    const first = await start();
    try {
      await createTemplate({ url: first.connectionString, template });
    } catch (error) {
      await first.destroy();
      throw error;
    }
    await first.stop();
    await cacheCluster(directory);
  }
  await trustSocket(directory);
  const server = await start();
  return { url: server.connectionString, template, isOurs: true, stop: () => server.destroy() };
};

/**
 * Lets the server trust its socket, in a folder that only its account and root may enter. A password takes a third of the
 * CPU time of a connection, and the hubs of a whole run open eight thousand.
 */
const trustSocket = async (directory: string): Promise<void> => {
  const file = join(directory, 'postgres/data/pg_hba.conf');
  // The cluster is elsewhere if the account of Postgres cannot enter the directory.
  if (!existsSync(file)) return;
  await writeFile(file, (await readFile(file, 'utf8')).replaceAll('scram-sha-256', 'trust'));
};

/** Stops the servers of killed test runs, and removes their files. */
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
