import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createPool, queryTogether, type Statement } from '#platform/db/pool.ts';
import { useApp } from '../support/app.ts';

// Two statements are sent at once. If either fails, neither may return rows, and a connection whose state is uncertain
// must not be reused.

const app = useApp();
let pool: Pool;

beforeEach(() => {
  const { databaseUrl } = app().hub.services.config;
  // A single connection, so that it still has its prepared statements.
  pool = createPool({ connectionString: databaseUrl ?? '', max: 1, applicationName: 'prepared' });
});
afterEach(() => pool.end());

const ONE = { name: 'one', text: 'select $1::int as n, $2::text as t', values: [1, null] };
const DIVIDED = (by: number) => ({ name: 'divided', text: 'select 6 / $1::int as quotient', values: [by] });
const NONE = { name: 'none', text: 'select 1 as one where $1', values: [false] };

const both = (first: Statement, second: Statement) =>
  queryTogether<Record<string, unknown>, Record<string, unknown>>(pool, first, second);

const backendOf = async () => (await pool.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;

describe('a pair of statements', () => {
  it('returns the rows of each, even if empty, null or long', async () => {
    const long = { name: 'long', text: 'select repeat($1, 5000000) as t, null::bigint as n', values: ['x'] };
    for (let i = 0; i < 3; i++) {
      expect(await both(ONE, NONE)).toEqual([[{ n: 1, t: null }], []]);
      const [none, rows] = await both(NONE, long);
      expect(none).toEqual([]);
      expect(rows?.[0]?.n).toBeNull();
      expect(String(rows?.[0]?.t)).toHaveLength(5_000_000);
    }
  });

  it('fails if either fails, and the next pair gets a connection', async () => {
    for (let i = 0; i < 3; i++) await both(ONE, DIVIDED(2));
    await expect(both(ONE, DIVIDED(0))).rejects.toThrow('division by zero');
    await both(ONE, DIVIDED(2));
    await expect(both(DIVIDED(0), ONE)).rejects.toThrow('division by zero');
    expect(await both(DIVIDED(3), ONE)).toEqual([[{ quotient: 2 }], [{ n: 1, t: null }]]);
  });

  it('is prepared again if the connection has lost its prepared statements', async () => {
    for (let i = 0; i < 2; i++) await both(ONE, DIVIDED(2));
    await pool.query('deallocate all');
    await expect(both(ONE, DIVIDED(2))).rejects.toThrow('does not exist');
    expect(await both(ONE, DIVIDED(2))).toEqual([[{ n: 1, t: null }], [{ quotient: 3 }]]);
  });

  it('never mixes old columns with new rows', async () => {
    const table = `prepared_${crypto.randomUUID().replaceAll('-', '')}`;
    const all = { name: 'all', text: `select * from ${table} where $1`, values: [true] };
    await pool.query(`create table ${table} (a int, b text)`);
    try {
      await pool.query(`insert into ${table} values (1, 'b')`);
      for (let i = 0; i < 2; i++) expect(await both(ONE, all)).toMatchObject([{}, [{ a: 1, b: 'b' }]]);
      await pool.query(`alter table ${table} drop column a, add column a text default 'c'`);
      await expect(both(ONE, all)).rejects.toThrow('cached plan must not change result type');
      expect(await both(ONE, all)).toMatchObject([{}, [{ a: 'c', b: 'b' }]]);
    } finally {
      await pool.query(`drop table ${table}`);
    }
  });

  it('fails if the connection is lost, and the next pair gets another', async () => {
    const sleep = { name: 'sleep', text: 'select pg_sleep($1)::text as t', values: [0] };
    for (let i = 0; i < 2; i++) await both(ONE, sleep);
    const pid = await backendOf();
    const lost = both(ONE, { ...sleep, values: [60] });
    const outcome = expect(lost).rejects.toThrow();
    await app().hub.services.pool.query('select pg_terminate_backend($1)', [pid]);
    await outcome;
    expect(await both(ONE, sleep)).toHaveLength(2);
    expect(await backendOf()).not.toBe(pid);
  });
});
