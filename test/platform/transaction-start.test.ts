import { sql } from 'kysely';
import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { isDatabaseAway } from '#platform/db/failures.ts';
import { createDatabase, createPool } from '#platform/db/pool.ts';

let pool: Pool;

beforeEach(() => {
  pool = createPool({ connectionString: inject('testDatabase').adminUrl, max: 1, applicationName: 'transactions' });
});
afterEach(() => pool.end());

describe('a transaction', () => {
  it('has begun when its first statement runs', async () => {
    const began = await createDatabase(pool)
      .transaction()
      .execute(async (tx) => {
        // Outside of a transaction, the setting would end with its statement.
        await sql`select set_config('millrace.test', 'kept', true)`.execute(tx);
        return (await sql<{ value: string }>`select current_setting('millrace.test') as value`.execute(tx)).rows[0];
      });
    expect(began).toEqual({ value: 'kept' });
    const { rows } = await pool.query(`select current_setting('millrace.test', true) as value`);
    expect(rows).toEqual([{ value: '' }]);
  });

  it('sends its first statement without waiting for the answer to its beginning', async () => {
    const client = await pool.connect();
    try {
      const answers: string[] = [];
      client.connection.on('commandComplete', ({ text }: { text: string }) => answers.push(text));
      await client.query('begin');
      expect(answers).toEqual([]);
      await client.query('rollback');
      expect(answers).toEqual(['BEGIN', 'ROLLBACK']);
    } finally {
      client.release();
    }
  });

  it('fails at its first statement if the connection was lost, and the next one has a new connection', async () => {
    const db = createDatabase(pool);
    const lost = db.transaction().execute(async (tx) => {
      await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx).catch(() => {});
      return sql`select 1`.execute(tx);
    });
    expect(isDatabaseAway(await lost.catch((error: unknown) => error))).toBe(true);
    const client = await pool.connect();
    client.connection.stream.destroy();
    await client.query('begin');
    expect(isDatabaseAway(await client.query('select 1').catch((error: unknown) => error))).toBe(true);
    client.release(true);
    const { rows } = await db.transaction().execute((tx) => sql<{ one: number }>`select 1 as one`.execute(tx));
    expect(rows).toEqual([{ one: 1 }]);
  });
});
