import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { queryWithBytes } from '#platform/db/bytes-query.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();

const ECHO = 'select $1::text as word, $2::int[] as numbers, $3::bytea as body';
const ask = (texts: readonly string[], parts: readonly Buffer[], text = ECHO) =>
  queryWithBytes<{ word: string; numbers: number[]; body: Buffer }>(app().hub.services.pool, text, texts, parts);

it('passes parts as one value beside other parameters, again and again', async () => {
  for (const sizes of [[], [0], [1], [70_000, 0, 3], [1_000_000, 1]]) {
    const parts = sizes.map((size) => randomBytes(size));
    expect(await ask(['ünïcode', '{1,2}'], parts)).toEqual([
      { word: 'ünïcode', numbers: [1, 2], body: Buffer.concat(parts) },
    ]);
  }
});

it('reports errors of the statement, and leaves the connections usable', async () => {
  for (let i = 0; i < 30; i++) {
    await expect(ask(['word', '{broken'], [Buffer.from('x')])).rejects.toMatchObject({ code: '22P02' });
    await expect(ask([], [Buffer.from('x')], 'select nothing($1::bytea)')).rejects.toMatchObject({ code: '42883' });
  }
  const together = Array.from({ length: 30 }, (_, n) => ask([String(n), '{}'], [Buffer.from([n])]));
  expect((await Promise.all(together)).flat()).toEqual(
    together.map((_, n) => ({ word: String(n), numbers: [], body: Buffer.from([n]) })),
  );
  const { pool } = app().hub.services;
  // The hub itself uses the pool now and then.
  await until('all connections are idle', () => pool.idleCount === pool.totalCount);
});
