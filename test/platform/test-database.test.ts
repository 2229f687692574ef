import pg from 'pg';
import { expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';

test('a test database is migrated, uses UTF-8, and belongs to one test', async () => {
  const [one, two] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  const client = new pg.Client({ connectionString: one.url });
  await client.connect();
  const { rows } = await client.query(
    `SELECT current_setting('server_encoding') AS encoding, count(*)::int > 0 AS migrated FROM kysely_migration`,
  );
  expect(rows).toEqual([{ encoding: 'UTF8', migrated: true }]);
  await client.end();
  await one.drop();
  await two.drop();
  await expect(new pg.Client({ connectionString: one.url }).connect()).rejects.toThrow(/does not exist/);
});
