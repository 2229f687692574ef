import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { anonymous, inNameOf, type Services, systemActor, type Tx } from '#platform/context.ts';
import { type CreateContext, createContextFactory } from '#platform/create-context.ts';
import { defineEvent } from '#platform/events.ts';
import { defineJob } from '#platform/jobs.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';

const renamed = defineEvent('thing.renamed', z.object({ to: z.string() }));
const tidy = defineJob({
  name: 'things.tidy',
  input: z.object({ id: z.number() }),
  maxAttempts: 7,
  run: async () => {},
});

let database: TestDatabase;
let held: TestServices;
let services: Services;
let createContext: CreateContext;
beforeAll(async () => {
  database = await createTestDatabase();
  held = await createTestServices(database.url);
  ({ services } = held);
  createContext = createContextFactory(services);
  await services.pool.query('create table counters (id int primary key, n int not null)');
  await services.pool.query('insert into counters values (1, 0), (2, 0)');
});
afterAll(async () => {
  await held[Symbol.asyncDispose]();
  await database.drop();
});

const subject = { type: 'Thing', id: 5 };
const rows = async (text: string, values: unknown[] = []) => (await services.pool.query(text, values)).rows;
const eventsOf = (id: number) => rows('select * from events where subject_id = $1 order by id', [id]);
const jobs = (key: string) => rows('select * from graphile_worker._private_jobs where key = $1', [key]);

describe('transaction', () => {
  it('commits the change, its events in order, and its jobs together', async () => {
    const ctx = createContext({ actor: { ...systemActor, userId: 9 }, chainId: 'chain' });
    const result = await ctx.transaction(async (tx) => {
      tx.emit(renamed, {
        subject,
        project_id: 3,
        namespace_ids: [1, 2],
        user_ids: [9],
        min_access_level: 30,
        payload: { to: 'a' },
      });
      tx.emit(renamed, { subject, payload: { to: 'b' } });
      tx.enqueue(tidy, { id: 1 }, { key: 'together', runAt: new Date('2040-01-01T00:00:00Z') });
      return 'done';
    });
    expect(result).toBe('done');
    const [first, second] = await eventsOf(5);
    expect(first).toMatchObject({
      kind: 'thing.renamed',
      actor_id: 9,
      project_id: 3,
      namespace_ids: [1, 2],
      user_ids: [9],
    });
    expect(first).toMatchObject({ min_access_level: 30, payload: { to: 'a' }, chain_id: 'chain', position: null });
    expect(second).toMatchObject({ payload: { to: 'b' }, namespace_ids: [], user_ids: [], project_id: null });
    expect(await jobs('together')).toMatchObject([
      { payload: { id: 1 }, max_attempts: 7, run_at: '2040-01-01 00:00:00+00' },
    ]);
  });

  it('leaves nothing behind when it fails', async () => {
    const ctx = createContext({ actor: systemActor });
    const failing = ctx.transaction(async (tx) => {
      await sql`update counters set n = 100 where id = 1`.execute(tx.db);
      tx.emit(renamed, { subject: { type: 'Thing', id: 6 }, payload: { to: 'a' } });
      tx.enqueue(tidy, { id: 1 }, { key: 'failing' });
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await eventsOf(6)).toEqual([]);
    expect(await jobs('failing')).toEqual([]);
    expect(await rows('select n from counters where id = 1')).toEqual([{ n: 0 }]);
  });

  it('refuses an invalid payload or input, and changes nothing', async () => {
    const ctx = createContext({ actor: systemActor });
    const job = ctx.transaction(async (tx) => {
      tx.emit(renamed, { subject: { type: 'Thing', id: 7 }, payload: { to: 'a' } });
      tx.enqueue(tidy, { id: Number.NaN });
    });
    await expect(job).rejects.toThrow(z.ZodError);
    expect(await eventsOf(7)).toEqual([]);
  });

  it('joins the transaction it is called in', async () => {
    const ctx = createContext({ actor: systemActor });
    const failing = ctx.transaction(async (tx) => {
      await tx.transaction(async (inner) =>
        inner.emit(renamed, { subject: { type: 'Thing', id: 8 }, payload: { to: 'a' } }),
      );
      throw new Error('after all');
    });
    await expect(failing).rejects.toThrow('after all');
    expect(await eventsOf(8)).toEqual([]);
  });

  it('names another actor in the events of `as`, also in transactions inside, and the first one outside', async () => {
    const ctx = createContext({ actor: { ...systemActor, userId: 9 } });
    await ctx.transaction(async (tx) => {
      const emit = (by: Tx, to: string) => by.emit(renamed, { subject: { type: 'Thing', id: 12 }, payload: { to } });
      const other = tx.as({ ...anonymous, userId: 10 });
      emit(other, 'other');
      await other.transaction(async (inner) => {
        expect(inner.actor).toEqual({ ...anonymous, userId: 10 });
        emit(inner, 'inside');
        emit(inNameOf(inner, 11), 'third');
      });
      emit(tx, 'first');
      emit(inNameOf(tx, null), 'nobody');
    });
    expect((await eventsOf(12)).map(({ actor_id, payload }) => [payload.to, actor_id])).toEqual([
      ['other', 10],
      ['inside', 10],
      ['third', 11],
      ['first', 9],
      ['nobody', null],
    ]);
  });

  it('rejects an event emitted after its transaction ended', async () => {
    const ctx = createContext({ actor: systemActor });
    const tx = await ctx.transaction(async (it) => it);
    expect(() => tx.emit(renamed, { subject, payload: { to: 'late' } })).toThrow('added too late');
  });

  it('retries after a deadlock, and emits once', async () => {
    const ctx = createContext({ actor: systemActor });
    let runs = 0;
    const cross = (first: number, second: number, met: Promise<void>, meet: () => void) =>
      ctx.transaction(async (tx) => {
        runs++;
        tx.emit(renamed, { subject: { type: 'Thing', id: 10 }, payload: { to: String(first) } });
        await sql`update counters set n = n + 1 where id = ${first}`.execute(tx.db);
        meet();
        await met;
        await sql`update counters set n = n + 1 where id = ${second}`.execute(tx.db);
      });
    const left = Promise.withResolvers<void>();
    const right = Promise.withResolvers<void>();
    await Promise.all([cross(1, 2, right.promise, left.resolve), cross(2, 1, left.promise, right.resolve)]);
    expect(runs).toBe(3);
    expect(await rows('select n from counters order by id')).toEqual([{ n: 2 }, { n: 2 }]);
    expect(await eventsOf(10)).toHaveLength(2);
  });

  it('keeps one waiting job per key, with the last input', async () => {
    const ctx = createContext({ actor: systemActor });
    await ctx.transaction(async (tx) => {
      tx.enqueue(tidy, { id: 1 }, { key: 'once' });
      tx.enqueue(tidy, { id: 2 }, { key: 'once' });
    });
    await ctx.transaction(async (tx) => tx.enqueue(tidy, { id: 3 }, { key: 'once' }));
    expect(await jobs('once')).toMatchObject([{ payload: { id: 3 } }]);
  });

  it('stores texts that Postgres would refuse', async () => {
    const ctx = createContext({ actor: systemActor });
    const text = z.object({ text: z.string() });
    await ctx.transaction(async (tx) => {
      tx.emit(defineEvent('thing.said', text), {
        subject: { type: 'Thing', id: 11 },
        payload: { text: 'a\0b\ud800c \\u0000 😀' },
      });
      tx.enqueue(
        defineJob({ name: 'things.say', input: text, maxAttempts: 1, run: async () => {} }),
        { text: 'x\0' },
        { key: 'nul' },
      );
    });
    expect(await eventsOf(11)).toMatchObject([{ payload: { text: 'a\ufffdb\ufffdc \\u0000 😀' } }]);
    expect(await jobs('nul')).toMatchObject([{ payload: { text: 'x\ufffd' } }]);
  });
});
