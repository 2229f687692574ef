import pg from 'pg';
import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CallerCheck, CallerCondition } from '#platform/caller/caller-check.ts';
import { createPool } from '#platform/db/pool.ts';
import { useApp } from '../support/app.ts';

// The re-check of an assumed caller is part of the first statement, and costs no statement of its own.

const sent = vi.spyOn(pg.Client.prototype, 'query');
afterAll(() => sent.mockRestore());
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });

const pool = () => app().hub.services.pool;
const isOne = new CallerCondition((first) => `exists (select 1 where $${first} = 'one')`);
const numbers = { text: 'select n, $2::text as t from generate_series(1, $1::int) n order by n desc' };

/** The statements about `guarded` or the condition that were sent since the last call. */
const statements = () => {
  const calls: readonly (readonly unknown[])[] = sent.mock.calls;
  const texts = calls.map(([query]) => JSON.stringify(query)).filter((text) => /generate_series|'one'/.test(text));
  sent.mockClear();
  return texts;
};

beforeEach(() => {
  statements();
});

describe('the check of an assumed caller', () => {
  it('is part of the first statement, and of no other', async () => {
    const check = new CallerCheck(isOne, ['one']);
    for (let i = 0; i < 2; i++)
      expect(await check.query(pool(), numbers, [2, 'x'])).toEqual([
        { n: 2, t: 'x' },
        { n: 1, t: 'x' },
      ]);
    expect(await check.holds(pool())).toBe(true);
    const [first, second, ...others] = statements();
    expect(first).toMatch(/'one'/);
    expect(second).not.toMatch(/'one'/);
    expect(others).toEqual([]);
  });

  it('runs by itself after a statement without rows', async () => {
    const check = new CallerCheck(isOne, ['one']);
    expect(await check.query(pool(), numbers, [0, 'x'])).toEqual([]);
    expect(statements()).toHaveLength(2);
    expect(await check.holds(pool())).toBe(true);
    expect(statements()).toEqual([]);
  });

  it('ends the work if it fails, and later statements too', async () => {
    const check = new CallerCheck(isOne, ['two']);
    await expect(check.query(pool(), numbers, [2, 'x'])).rejects.toThrow();
    await expect(check.confirm(pool())).rejects.toThrow();
    expect(await check.during(pool(), () => check.query(pool(), numbers, [2, 'x']))).toBeNull();
  });

  it('fails if the statement finds a change that a check at the same time came too early for', async () => {
    const { id, username } = await app().make.user();
    const isNamed = new CallerCondition(
      (first) => `exists (select from users u where u.id = $${first} and u.username = $${first + 1})`,
    );
    const check = new CallerCheck(isNamed, [id, username]);
    const connectionString = app().hub.services.config.databaseUrl ?? '';
    const busy = createPool({ connectionString, max: 1, applicationName: 'busy' });
    try {
      const client = await busy.connect();
      const rows = check.query(busy, numbers, [2, 'x']);
      expect(await check.holds(pool())).toBe(true);
      await pool().query('update users set username = $2 where id = $1', [id, `${username}-renamed`]);
      client.release();
      await expect(rows).rejects.toThrow();
      expect(await check.holds(pool())).toBe(false);
    } finally {
      await busy.end();
    }
  });

  it('decides whether the error of the first statement counts', async () => {
    const failing = { text: 'select 1 / $1::int as n' };
    const current = new CallerCheck(isOne, ['one']);
    await expect(current.during(pool(), () => current.query(pool(), failing, [0]))).rejects.toThrow('division by zero');
    const outdated = new CallerCheck(isOne, ['two']);
    expect(await outdated.during(pool(), () => outdated.query(pool(), failing, [0]))).toBeNull();
  });
});
