import { readdir } from 'node:fs/promises';
import pg from 'pg';
import { expect, test } from 'vitest';
import { migrate } from '#platform/db/migrate.ts';
import { tolerateLosses } from '#platform/db/pool.ts';
import { createEmptyDatabase, createTestDatabase } from '../support/database.ts';

const files = async () =>
  (await readdir(new URL('../../migrations/', import.meta.url)))
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.slice(0, -3))
    .sort();

const query = async <R extends pg.QueryResultRow>(url: string, text: string): Promise<R[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<R>(text)).rows;
  } finally {
    await client.end();
  }
};

test('applies each migration once when processes start together', async () => {
  const database = await createEmptyDatabase();
  const results = await Promise.all([migrate(database.url), migrate(database.url), migrate(database.url)]);
  expect(results.map(({ length }) => length).sort((a, b) => a - b)).toEqual([0, 0, (await files()).length]);
  expect(results.flat()).toEqual(await files());
  expect(await query(database.url, 'SELECT count(*)::int AS jobs FROM graphile_worker.jobs')).toEqual([{ jobs: 0 }]);
  expect(await migrate(database.url)).toEqual([]);
  await database.drop();
});

test('ignores the timeouts that operators set, also while it waits for another process', async () => {
  const database = await createEmptyDatabase();
  const name = new URL(database.url).pathname.slice(1);
  for (const [timeout, value] of [
    ['statement_timeout', '500ms'],
    ['lock_timeout', '100ms'],
    ['idle_session_timeout', '100ms'],
  ])
    await query(database.url, `ALTER DATABASE ${name} SET ${timeout} = '${value}'`);
  const pool = tolerateLosses(new pg.Pool({ connectionString: database.url, max: 3 }));
  const results = await Promise.all([migrate(pool), migrate(database.url), migrate(database.url)]);
  expect(results.flat()).toEqual(await files());
  expect((await pool.query('SHOW statement_timeout')).rows).toEqual([{ statement_timeout: '500ms' }]);
  await pool.end();
  await database.drop();
});

test('accepts a pool, and leaves it open', async () => {
  const database = await createEmptyDatabase();
  const pool = tolerateLosses(new pg.Pool({ connectionString: database.url, max: 3 }));
  expect(await migrate(pool)).toEqual(await files());
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
  await pool.end();
  await database.drop();
});

test('names a migration that fails, changes nothing, and releases the lock', async () => {
  const database = await createEmptyDatabase();
  const [first = ''] = await files();
  // A table that the first migration creates already exists.
  const probe = await createTestDatabase();
  const tables = await query<{ tablename: string }>(
    probe.url,
    `SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE 'kysely%'`,
  );
  await probe.drop();
  await query(database.url, tables.map(({ tablename }) => `CREATE TABLE "${tablename}" (in_the_way int);`).join(''));
  await expect(migrate(database.url)).rejects.toThrow(new RegExp(`Migration ${first} failed: .*already exists`));
  expect(await query(database.url, 'SELECT name FROM kysely_migration')).toEqual([]);
  await query(database.url, `DROP TABLE ${tables.map(({ tablename }) => `"${tablename}"`).join(', ')}`);
  expect(await migrate(database.url)).toEqual(await files());
  await database.drop();
});

test('applies a migration whose number is lower than that of the last one', async () => {
  const database = await createTestDatabase();
  // It can be applied twice.
  await query(database.url, `DELETE FROM kysely_migration WHERE name = '0293_groups_by_name'`);
  expect(await migrate(database.url)).toEqual(['0293_groups_by_name']);
  expect(await migrate(database.url)).toEqual([]);
  await database.drop();
});

test('refuses a database of a later version of the hub', async () => {
  const database = await createTestDatabase();
  await query(database.url, `INSERT INTO kysely_migration (name, timestamp) VALUES ('9999_future', '2100-01-01')`);
  await expect(migrate(database.url)).rejects.toThrow(
    /cannot be migrated: it belongs to a later version .*9999_future/,
  );
  await database.drop();
});

test('says which rights are missing', async () => {
  const database = await createEmptyDatabase();
  const url = new URL(database.url);
  const name = url.pathname.slice(1);
  url.username = `stranger_of_${name}`;
  await query(database.url, `CREATE ROLE "${url.username}" LOGIN PASSWORD '${url.password}'`);
  await expect(migrate(url.href)).rejects.toThrow(
    `permission denied for database ${name}: the account in DATABASE_URL must own the database and its tables.`,
  );
  await query(database.url, `DROP ROLE "${url.username}"`);
  await database.drop();
});

test('refuses a database in another encoding', async () => {
  const database = await createEmptyDatabase(`ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc`);
  await expect(migrate(database.url)).rejects.toThrow(/SQL_ASCII; Millrace needs UTF8/);
  expect(await query(database.url, `SELECT 1 FROM pg_tables WHERE schemaname = 'public'`)).toEqual([]);
  await database.drop();
});
