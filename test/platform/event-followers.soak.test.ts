import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Services, systemActor } from '#platform/context.ts';
import { type CreateContext, createContextFactory } from '#platform/create-context.ts';
import { Listener } from '#platform/db/listener.ts';
import { type EventLog, startEventLog } from '#platform/event-log/event-log.ts';
import { defineFollower, type Follower, type RunningFollowers, startFollowers } from '#platform/event-log/followers.ts';
import { defineEvent } from '#platform/events.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';
import { until } from '../support/until.ts';

const noted = defineEvent('thing.noted', z.object({ n: z.number() }));
/** No test waits that long: what arrives, arrives by notification. */
const NO_POLL_MS = 3_600_000;
const dropped = defineEvent('thing.dropped', z.object({}));

let database: TestDatabase;
let held: TestServices;
let services: Services;
let createContext: CreateContext;
let logs: { log: EventLog; listener: Listener }[];
beforeAll(async () => {
  database = await createTestDatabase();
  held = await createTestServices(database.url, { max: 30 });
  ({ services } = held);
  createContext = createContextFactory(services);
  await services.pool.query('create table handled (seq serial, by_process int, follower text, position bigint, n int)');
  const open = async () => {
    const listener = new Listener(database.url, services.log);
    const log = await startEventLog(services, listener, { pollMs: NO_POLL_MS });
    // Last, because this waits until all channels are listened to.
    await listener.start();
    return { log, listener };
  };
  logs = [await open(), await open()];
});
afterAll(async () => {
  for (const { log, listener } of logs) {
    await log.stop();
    await listener.close();
  }
  await held[Symbol.asyncDispose]();
  await database.drop();
});

const emit = (...ns: number[]) =>
  createContext({ actor: systemActor }).transaction(async (tx) => {
    for (const n of ns) tx.emit(noted, { subject: { type: 'Thing', id: 1 }, payload: { n } });
  });

const handledBy = async (follower: string): Promise<number[]> => {
  const { rows } = await services.pool.query<{ n: number }>('select n from handled where follower = $1 order by seq', [
    follower,
  ]);
  return rows.map((row) => row.n);
};

/** A follower that records the events it handles. `check` may throw for an event. */
const recorder = (name: string, process: number, check: (n: number) => void = () => {}): Follower =>
  defineFollower({
    name,
    handle: async (tx, events) => {
      for (const event of events) {
        const { n } = noted.payload.parse(event.payload);
        await sql`insert into handled (by_process, follower, position, n) values (${process}, ${name}, ${event.position}, ${n})`.execute(
          tx.db,
        );
        check(n);
      }
    },
  });

const follow = (process: number, ...followers: readonly Follower[]): Promise<RunningFollowers> => {
  const { log } = logs[process] ?? {};
  if (!log) throw new Error('there are two');
  return startFollowers({ services, sequencer: log.sequencer, createContext, followers, firstRetryMs: 10 });
};

const drop = (count: number) =>
  createContext({ actor: systemActor }).transaction(async (tx) => {
    for (let n = 0; n < count; n++) tx.emit(dropped, { subject: { type: 'Thing', id: 1 }, payload: {} });
  });

const cursorOf = async (follower: string): Promise<number> =>
  (await services.pool.query('select position from event_cursors where name = $1', [follower])).rows[0].position;

const numbersTo = (count: number) => Array.from({ length: count }, (_, n) => n);

describe('a follower', () => {
  it('handles every event once and in order while two processes follow, and resumes at its cursor', async () => {
    const before = (await services.pool.query('select last_position from event_log')).rows[0].last_position;
    expect(before).toBe(0);
    const both = await Promise.all([follow(0, recorder('both', 0)), follow(1, recorder('both', 1))]);
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let i = 0; i < 20; i++) {
        await emit(writer * 20 + i);
        await sleep(Math.random() * 4);
      }
    });
    await Promise.all(writers);
    await until('all are handled', async () => (await handledBy('both')).length >= 160);
    await both[0]?.stop();
    await emit(160);
    await until('the other goes on alone', async () => (await handledBy('both')).length >= 161);
    await both[1]?.stop();
    await emit(161);
    const again = await follow(0, recorder('both', 0));
    await again.drain();
    await again.stop();
    const { rows } = await services.pool.query(`select position from handled where follower = 'both' order by seq`);
    expect(rows.map((row) => row.position)).toEqual(numbersTo(162).map((n) => n + 1));
    expect((await handledBy('both')).sort((a, b) => a - b)).toEqual(numbersTo(162));
  });

  it('starts with the oldest event kept, and handles events in batches, which are smaller with payloads', async () => {
    await emit(...numbersTo(700));
    for (const [payloads, most] of [
      [true, 100],
      [false, 500],
    ] as const) {
      const batches: number[] = [];
      const running = await follow(
        0,
        defineFollower({
          name: `late ${payloads}`,
          payloads,
          handle: async (_tx, events) => void batches.push(events.length),
        }),
      );
      await running.drain();
      await running.stop();
      expect(batches.reduce((sum, size) => sum + size, 0)).toBe(862);
      expect(Math.max(...batches)).toBe(most);
    }
  });

  it('handles a burst in one batch if it waits for more, and at once when drained', async () => {
    const batches: number[] = [];
    const follower = (delayMs: number) =>
      defineFollower({ name: 'patient', delayMs, handle: async (_tx, events) => void batches.push(events.length) });
    const patient = await follow(0, follower(NO_POLL_MS));
    await patient.drain();
    batches.length = 0;
    for (const n of numbersTo(5)) await emit(n);
    await patient.drain();
    expect(batches).toEqual([5]);
    await patient.stop();
    const quick = await follow(0, follower(1));
    await emit(5);
    await until('the wait is over', () => batches.length > 1);
    await quick.stop();
    expect(batches).toEqual([5, 1]);
  });

  it('is called after a commit without waiting for the poll', async () => {
    let handled = 0;
    const running = await follow(
      1,
      defineFollower({
        name: 'quick',
        handle: async (_tx, events) => {
          handled += events.length;
        },
      }),
    );
    await running.drain();
    for (let n = 0; n < 15; n++) {
      const seen = handled;
      await emit(n);
      await until('it is handled', () => handled > seen);
    }
    await running.stop();
  });
});

describe('an event that cannot be handled', () => {
  it('is isolated from its batch and retried, after the events before it are handled, and nothing is handled twice', async () => {
    const skip = await follow(0, recorder('fails', 0));
    await skip.drain();
    await skip.stop();
    await services.pool.query('truncate handled');
    let failures = 0;
    await emit(...numbersTo(6));
    const running = await follow(
      0,
      recorder('fails', 0, (n) => {
        if (n === 3 && failures++ < 4) throw new Error('not yet');
      }),
    );
    await until('all are handled', async () => (await handledBy('fails')).length === 6);
    await running.stop();
    expect(await handledBy('fails')).toEqual(numbersTo(6));
    expect(failures).toBe(5);
  });

  it('is retried with pauses, and finally set aside so that the others go on', async () => {
    await services.pool.query(
      `update event_cursors set position = (select last_position from event_log) where name = 'fails'`,
    );
    await services.pool.query('truncate handled');
    let failures = 0;
    const running = await follow(
      1,
      recorder('fails', 1, (n) => {
        if (n !== 2) return;
        failures++;
        throw new Error('never\0');
      }),
    );
    await emit(1, 2, 3);
    await until('the first is handled', async () => (await handledBy('fails')).length === 1);
    await until('the others are handled', async () => (await handledBy('fails')).length === 2);
    await running.stop();
    expect(await handledBy('fails')).toEqual([1, 3]);
    expect(failures).toBe(9);
    const { rows } = await services.pool.query('select follower, kind, error from event_failures');
    expect(rows).toEqual([{ follower: 'fails', kind: 'thing.noted', error: 'never' }]);
  });

  it('is not blamed when the database connection is lost meanwhile', async () => {
    await services.pool.query('truncate handled');
    let cut = 0;
    const follower = defineFollower({
      name: 'both',
      handle: async (tx, events) => {
        for (const event of events)
          await sql`insert into handled (follower, position, n) values ('both', ${event.position}, ${noted.payload.parse(event.payload).n})`.execute(
            tx.db,
          );
        if (cut++ < 2) await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx.db);
      },
    });
    const running = await follow(0, follower);
    const head = logs[0]?.log.sequencer.position;
    await until('it has caught up', async () => {
      const { rows } = await services.pool.query(`select position from event_cursors where name = 'both'`);
      return rows[0].position === head;
    });
    await running.stop();
    const { rows } = await services.pool.query(
      `select count(*)::int as n, count(distinct position)::int as distinct from handled where follower = 'both'`,
    );
    expect(rows[0].n).toBe(rows[0].distinct);
    expect(rows[0].n).toBeGreaterThan(700);
    expect((await services.pool.query(`select from event_failures where follower = 'both'`)).rows).toEqual([]);
  });
});

describe('a database that crashed before it had written a commit of a follower to the disk', () => {
  const only: Follower['wants'] = ({ kind }) => kind === noted.kind;

  /** Runs a follower that has handled event 1, in a commit that is undone then, as such a crash does. */
  const followThatLost = async (name: string, wants?: Follower['wants']): Promise<RunningFollowers> => {
    const running = await follow(0, { ...recorder(name, 0), ...(wants ? { wants } : {}) });
    await running.drain();
    await services.pool.query('truncate handled');
    const before = await cursorOf(name);
    await emit(1);
    await running.drain();
    expect(await handledBy(name)).toEqual([1]);
    await services.pool.query('truncate handled');
    await services.pool.query('update event_cursors set position = $2 where name = $1', [name, before]);
    return running;
  };

  it.each([
    ['all kinds', undefined],
    ['some kinds', only],
  ])('makes a follower of %s handle the events again, before later ones', async (kinds, wants) => {
    const running = await followThatLost(`lost ${kinds}`, wants);
    await emit(2);
    await running.drain();
    expect(await handledBy(`lost ${kinds}`)).toEqual([1, 2]);
    await running.stop();
  });

  it('is noticed without a further event', async () => {
    const running = await followThatLost('lost quietly');
    // The first compares the cursors with the database, as the hub does every ten seconds.
    await running.drain();
    await running.drain();
    expect(await handledBy('lost quietly')).toEqual([1]);
    await running.stop();
  });

  it('is not hidden by a cursor that passed unwanted events meanwhile', async () => {
    const running = await followThatLost('lost and idle', only);
    await drop(10);
    await running.drain();
    await running.drain();
    expect(await handledBy('lost and idle')).toEqual([1]);
    await running.stop();
  });
});

describe('a follower of some kinds only', () => {
  const wants: Follower['wants'] = ({ kind }) => kind === noted.kind;

  it('gets no other events from either of two processes, and its cursor passes them', async () => {
    const [one, two] = [0, 1].map((process) => ({ ...recorder('choosy', process), wants }));
    if (!one || !two) throw new Error('there are two');
    const both = [await follow(0, one), await follow(1, two)];
    // Handle the events of earlier tests first, because either process may get them.
    for (const running of both) await running.drain();
    await services.pool.query('truncate handled');
    for (let n = 0; n < 20; n++) {
      await drop(3);
      await emit(n);
    }
    await drop(3);
    for (const running of both) await running.drain();
    expect(await handledBy('choosy')).toEqual(numbersTo(20));
    for (const running of both) await running.stop();
    // The cursor also passes unwanted events, since a cursor behind them would keep them from pruning.
    expect(await cursorOf('choosy')).toBe(await logs[0]?.log.sequencer.sequence());
  });

  it('finds its events among more than memory holds, from a process that starts late, and after a crash', async () => {
    await services.pool.query('truncate handled');
    await emit(1);
    await drop(2_500);
    await emit(2);
    const running = await follow(0, { ...recorder('choosy', 0), wants });
    await running.drain();
    expect(await handledBy('choosy')).toEqual([1, 2]);
    await emit(3);
    await drop(20_500);
    await emit(4);
    await running.drain();
    await running.stop();
    // Simulate a killed process, which has not saved how far it skipped.
    await services.pool.query(`update event_cursors set position = position - 1000 where name = 'choosy'`);
    await emit(5);
    const again = await follow(1, { ...recorder('choosy', 1), wants });
    await again.drain();
    await again.stop();
    expect(await handledBy('choosy')).toEqual([1, 2, 3, 4, 4, 5]);
  });

  it('shares one statement with others to save the cursor when no follower wants the events', async () => {
    const idle = numbersTo(8).map((n): Follower => ({ ...recorder(`idle ${n}`, 0), wants }));
    const running = await follow(0, ...idle);
    await running.drain();
    await drop(10);
    await running.drain();
    await running.stop();
    const { rows } = await services.pool.query(
      `select distinct position, xmin::text from event_cursors where name like 'idle %'`,
    );
    expect(rows.map(({ position }) => position)).toEqual([await logs[0]?.log.sequencer.sequence()]);
  });

  it('saves its cursor later if the database could not save it', async () => {
    const running = await follow(0, { ...recorder('idle and unsaved', 0), wants });
    await running.drain();
    await drop(10);
    await services.pool.query('alter table event_cursors rename to event_cursors_away');
    await running.drain();
    await services.pool.query('alter table event_cursors_away rename to event_cursors');
    await running.drain();
    expect(await cursorOf('idle and unsaved')).toBe(await logs[0]?.log.sequencer.sequence());
    await running.stop();
  });
});
