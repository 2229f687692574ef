import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { createPool } from '#platform/db/pool.ts';

// Postgres keeps each prepared statement in memory, on each connection.

let pool: Pool;

beforeEach(() => {
  pool = createPool({ connectionString: inject('testDatabase').adminUrl, max: 1, applicationName: 'prepared' });
});
afterEach(() => pool.end());

const ask = async (column: string): Promise<unknown> =>
  (await pool.query(`select $1::int as ${column}`, [1])).rows[0]?.[column];

const prepared = async (): Promise<string[]> =>
  (await pool.query<{ statement: string }>('select statement from pg_prepared_statements')).rows.map(
    ({ statement }) => statement,
  );

describe('a statement with parameters', () => {
  it('is prepared when it is used for the third time', async () => {
    for (const expected of [[], [], ['select $1::int as often'], ['select $1::int as often']]) {
      expect(await ask('often')).toBe(1);
      expect(await prepared()).toEqual(expected);
    }
  });

  it('is not prepared if 500 others are', async () => {
    for (let i = 0; i < 510; i++) for (let use = 0; use < 3; use++) expect(await ask(`column${i}`)).toBe(1);
    const texts = await prepared();
    expect(texts).toHaveLength(500);
    expect(texts).toContain('select $1::int as column499');
  });
});
