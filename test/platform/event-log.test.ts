import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Services, systemActor } from '#platform/context.ts';
import { type CreateContext, createContextFactory } from '#platform/create-context.ts';
import { Listener } from '#platform/db/listener.ts';
import { type EventLog, startEventLog } from '#platform/event-log/event-log.ts';
import { definePruneEvents } from '#platform/event-log/prune.ts';
import { countBetween, POSITIONS_PER_RANGE } from '#platform/event-log/ranges.ts';
import type { LiveFilter } from '#platform/event-log/read.ts';
import { Sequencer } from '#platform/event-log/sequencer.ts';
import { defineEvent, type EventRow } from '#platform/events.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';
import { until } from '../support/until.ts';

const noted = defineEvent('thing.noted', z.object({ n: z.number() }));
const ALL: LiveFilter = { kinds: null };
/** No test waits that long: what arrives, arrives by notification. */
const NO_POLL_MS = 3_600_000;

let database: TestDatabase;
let held: TestServices;
let services: Services;
let createContext: CreateContext;
/** Two processes, each with its own view of one log. */
let logs: { log: EventLog; listener: Listener }[];
beforeAll(async () => {
  database = await createTestDatabase();
  held = await createTestServices(database.url, { max: 30 });
  ({ services } = held);
  createContext = createContextFactory(services);
  logs = await Promise.all([open(), open()]);
});
afterAll(async () => {
  for (const { log, listener } of logs) {
    await log.stop();
    await listener.close();
  }
  await held[Symbol.asyncDispose]();
  await database.drop();
});
beforeEach(async () => {
  const head = await log(0).sequencer.sequence();
  await until('both feeds are at the head', () => logs.every((it) => it.log.feed.head() === head));
});

const open = async () => {
  const listener = new Listener(database.url, services.log);
  const log = await startEventLog(services, listener, { pollMs: NO_POLL_MS });
  // Last, because this waits until all channels are listened to.
  await listener.start();
  return { log, listener };
};

const log = (index: number): EventLog => {
  const found = logs[index];
  if (!found) throw new Error('there are two');
  return found.log;
};

const emit = (n: number, more: Partial<Parameters<typeof noteOf>[1]> = {}) =>
  createContext({ actor: systemActor }).transaction(async (tx) => tx.emit(noted, noteOf(n, more)));

const noteOf = (
  n: number,
  more: { project_id?: number; namespace_ids?: number[]; user_ids?: number[]; id?: number },
) => ({
  subject: { type: 'Thing', id: more.id ?? 1 },
  ...(more.project_id === undefined ? {} : { project_id: more.project_id }),
  namespace_ids: more.namespace_ids ?? [],
  user_ids: more.user_ids ?? [],
  payload: { n },
});

const collect = (index: number, filter: LiveFilter = ALL) => {
  const events: EventRow[] = [];
  return { events, end: log(index).feed.subscribe(filter, (event) => events.push(event)) };
};

const numbers = (events: readonly EventRow[]) => events.map((event) => noted.payload.parse(event.payload).n);

const historyOf = async (filter: LiveFilter, after: number, end: number) => {
  const events: EventRow[] = [];
  for await (const batch of log(0).feed.history(filter, after, end)) events.push(...batch);
  return events;
};

describe('the log', () => {
  it('shows every event once and in one order, whatever the order of ids and commits, despite an open transaction', async () => {
    const start = log(0).feed.head();
    const feeds = [collect(0), collect(1)];
    const raw = new pg.Client({ connectionString: database.url });
    await raw.connect();
    await raw.query('begin');
    // This event has the lowest id but is committed last.
    await raw.query(
      `insert into events (kind, subject_type, subject_id, payload) values ('thing.noted', 'Thing', 1, '{"n": -2}')`,
    );

    // This reader relies only on the rule that no event is missing up to the newest position.
    const polled: number[] = [];
    let reading = true;
    const reader = (async () => {
      for (let cursor = start; reading || cursor < log(1).sequencer.position; await sleep(1)) {
        const { rows } = await services.pool.query<{ position: number }>(
          'select position from events where position > $1 order by position',
          [cursor],
        );
        for (const { position } of rows) polled.push(position);
        cursor = rows.at(-1)?.position ?? cursor;
      }
    })();
    const writers = Array.from({ length: 12 }, async (_, writer) => {
      for (let i = 0; i < 25; i++) {
        await createContext({ actor: systemActor }).transaction(async (tx) => {
          tx.emit(noted, noteOf(writer * 100 + i, {}));
          const { rows } = await services.pool.query('select 1');
          expect(rows).toHaveLength(1);
          await sleep(Math.random() * 5);
        });
      }
    });
    await Promise.all(writers);
    for (const { events } of feeds) await until('all are passed on', () => events.length === 300);
    await raw.query('notify event_committed');
    await raw.query('commit');
    for (const { events } of feeds) await until('the late one came too', () => events.length === 301);
    reading = false;
    await reader;
    await raw.end();

    const positions = Array.from({ length: 301 }, (_, i) => start + i + 1);
    for (const { events, end } of feeds) {
      end();
      expect(events.map((event) => event.position)).toEqual(positions);
      expect(new Set(events.map((event) => event.id)).size).toBe(301);
      expect(numbers(events).at(-1)).toBe(-2);
      for (let writer = 0; writer < 12; writer++) {
        const own = numbers(events).filter((n) => n >= 0 && Math.floor(n / 100) === writer);
        expect(own).toEqual([...own].sort((a, b) => a - b));
      }
    }
    expect(polled).toEqual(positions);
    expect((await historyOf(ALL, start, log(0).feed.head())).map((event) => event.position)).toEqual(positions);
  });

  it('passes an event on without waiting for the poll', async () => {
    const { events, end } = collect(1);
    for (let n = 0; n < 20; n++) {
      await emit(n);
      await until('it has come', () => events.length === n + 1);
    }
    end();
  });
});

describe('the sequencer', () => {
  it('tells of the positions it assigned once its statement has returned, and of those of other processes at once', async () => {
    const told: number[] = [];
    let announce = (_: string): void => {};
    const sequencer = new Sequencer(services.pool, services.log, NO_POLL_MS);
    sequencer.onAdvance(() => told.push(sequencer.position));
    sequencer.sequenceThrough(async () => {
      announce('8');
      expect(told).toEqual([]);
      return 7;
    });
    await sequencer.start({
      on: (channel, handler) => {
        if (channel === 'events') announce = handler;
        return () => {};
      },
      onReconnect: () => () => {},
    });
    expect(told).toEqual([8]);
    announce('9');
    expect(told).toEqual([8, 9]);
    sequencer.sequenceThrough(async () => {
      announce('10');
      throw new Error('the database is gone');
    });
    await expect(sequencer.sequence()).rejects.toThrow('gone');
    expect(told).toEqual([8, 9, 10]);
    await sequencer.stop();
  });
});

describe('a subscription', () => {
  it('gets only the events that its filter selects', async () => {
    const filters: LiveFilter[] = [
      { kinds: null, project_id: 1 },
      { kinds: null, namespace_id: 20 },
      { kinds: null, user_id: 7 },
      { kinds: null, subject: { type: 'Thing', id: 42 } },
      { kinds: new Set(['thing.noted']) },
      { kinds: new Set(['thing.lost']) },
      { kinds: new Set(['thing.noted']), project_id: 1, namespace_id: 20 },
    ];
    const before = log(0).feed.head();
    const collected = filters.map((filter) => collect(0, filter));
    await emit(1, { project_id: 1 });
    await emit(2, { project_id: 2, namespace_ids: [10, 20] });
    await emit(3, { user_ids: [7, 8] });
    await emit(4, { id: 42 });
    await emit(5, { project_id: 1, namespace_ids: [20] });
    const expected = [[1, 5], [2, 5], [3], [4], [1, 2, 3, 4, 5], [], [5]];
    await until('all are passed on', () => collected[4]?.events.length === 5);
    expect(collected.map(({ events }) => numbers(events))).toEqual(expected);
    for (const { end } of collected) end();
    for (const [i, filter] of filters.entries())
      expect(numbers(await historyOf(filter, before, log(0).feed.head()))).toEqual(expected[i]);
    await emit(6, { project_id: 1 });
    await until('it is passed', () => log(0).feed.head() > before + 5);
    expect(collected.map(({ events }) => numbers(events))).toEqual(expected);
  });

  it('misses no event of its kinds if it starts while others are read', async () => {
    const first = collect(0, { kinds: new Set(['thing.lost']) });
    for (let n = 0; n < 20; n++) {
      const writing = emit(n);
      // The feed may be reading only the kinds of the first subscription at this moment.
      const head = log(0).feed.head();
      const { events, end } = collect(0, { kinds: new Set(['thing.noted']) });
      await writing;
      await until('it is passed on', () => log(0).feed.head() > head);
      expect(numbers(events)).toEqual([n]);
      end();
    }
    expect(first.events).toEqual([]);
    first.end();
  });

  it('resumes at a cursor without a gap or a repetition', async () => {
    const cursor = log(0).feed.head();
    for (let n = 0; n < 1_200; n += 400)
      await createContext({ actor: systemActor }).transaction(async (tx) => {
        for (let i = 0; i < 400; i++) tx.emit(noted, noteOf(n + i, {}));
      });
    await until('the feed is there', () => log(0).feed.head() === cursor + 1_200);
    const writing = (async () => {
      for (let n = 1_200; n < 1_260; n++) await emit(n);
    })();
    const live = collect(0);
    const past = await historyOf(ALL, cursor, log(0).feed.head());
    const until1 = past.at(-1)?.position ?? 0;
    await writing;
    await until('the rest came', () => (live.events.at(-1)?.position ?? 0) === cursor + 1_260);
    live.end();
    const together = [...past, ...live.events.filter((event) => event.position > until1)];
    expect(numbers(together)).toEqual(Array.from({ length: 1_260 }, (_, i) => i));
  });

  it('survives a subscriber that throws', async () => {
    const end = log(0).feed.subscribe(ALL, () => {
      throw new Error('bad subscriber');
    });
    const { events, end: endOther } = collect(0);
    await emit(1);
    await emit(2);
    await until('the other one has both', () => events.length === 2);
    end();
    endOther();
  });

  it('misses nothing when the listening connection is lost', async () => {
    const { events, end } = collect(0);
    const feeding = (async () => {
      for (let n = 0; n < 40; n++) {
        await emit(n);
        await sleep(5);
      }
    })();
    await until('some have come', () => events.length > 5);
    await services.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'millrace listener' and datname = current_database()`,
    );
    await feeding;
    await until('all came', () => events.length === 40);
    end();
    expect(numbers(events)).toEqual(Array.from({ length: 40 }, (_, n) => n));
  });
});

describe('pruning', () => {
  const prune = async (days: number) => {
    const job = definePruneEvents(() => days);
    await job.run(createContext({ actor: systemActor }), {}, { attempt: 1, lastAttempt: false });
  };

  it('deletes old events except those a follower has yet to handle, and refuses cursors older than that', async () => {
    const cursor = log(0).feed.head();
    for (let n = 0; n < 6; n++) await emit(n);
    await until('the feed is there', () => log(0).feed.head() === cursor + 6);
    await services.pool.query(`update events set created_at = now() - interval '40 days' where position <= $1`, [
      cursor + 4,
    ]);
    await services.pool.query(`insert into event_cursors (name, position) values ('slow', $1)`, [cursor + 2]);
    await prune(30);
    expect(numbers(await historyOf(ALL, cursor + 2, cursor + 6))).toEqual([2, 3, 4, 5]);
    await expect(historyOf(ALL, cursor + 1, cursor + 6)).rejects.toMatchObject({ code: 'gone' });
    await services.pool.query(`update event_cursors set position = $1`, [cursor + 6]);
    await prune(30);
    await expect(historyOf(ALL, cursor + 2, cursor + 6)).rejects.toMatchObject({ code: 'gone' });
    expect(numbers(await historyOf(ALL, cursor + 4, cursor + 6))).toEqual([4, 5]);
    await services.pool.query(`update events set created_at = now() - interval '40 days'`);
    await prune(30);
    expect((await services.pool.query('select count(*)::int as n from events')).rows).toEqual([{ n: 0 }]);
    await emit(7);
    await until('positions go on', () => log(0).feed.head() > cursor + 6);
    expect(numbers(await historyOf(ALL, cursor + 6, log(0).feed.head()))).toEqual([7]);
  });

  it('begins a new range of positions after an eighth of the time, and drops a range when all of it is too old', async () => {
    const ranges = async () => {
      const { rows } = await services.pool.query(
        `select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'events'::regclass`,
      );
      return rows.length - 1;
    };
    const age = (days: number) =>
      services.pool.query(`update events set created_at = created_at - $1 * interval '1 day'`, [days]);
    const emitted = async (n: number) => {
      const before = log(0).feed.head();
      await emit(n, { project_id: 77 });
      await until('the feed is there', () => log(0).feed.head() > before);
      return log(0).feed.head();
    };
    const live = collect(1);
    const start = log(0).feed.head();
    const first = await emitted(1);
    await prune(30);
    const before = await ranges();
    await age(4);
    await prune(30);
    expect(await ranges()).toBe(before + 1);
    const second = await emitted(2);
    expect(second).toBeGreaterThan(first + 1_000_000_000);
    expect(second % POSITIONS_PER_RANGE).toBe(0);
    expect(countBetween(second - 1, second)).toBe(1);
    // The range has begun, so another is not due.
    await prune(30);
    expect(await ranges()).toBe(before + 1);
    for (const filter of [ALL, { ...ALL, project_id: 77 }])
      expect(numbers(await historyOf(filter, start, second))).toEqual([1, 2]);

    // The first range has an event that is recent enough, then only one that a follower has yet to handle.
    await services.pool.query(`update event_cursors set position = $1`, [start]);
    await age(40);
    await prune(30);
    expect(numbers(await historyOf(ALL, start, second))).toEqual([1, 2]);
    await services.pool.query(`update event_cursors set position = $1`, [second]);
    await services.pool.query(`update events set created_at = now() where position = $1`, [second]);
    await prune(30);
    // Another range was begun meanwhile, and the first is gone.
    expect(await ranges()).toBe(before + 1);
    // Nothing was pruned after this cursor.
    expect(numbers(await historyOf(ALL, first, second))).toEqual([2]);
    await expect(historyOf(ALL, start, second)).rejects.toMatchObject({ code: 'gone' });
    await until('live readers saw both', () => live.events.length === 2);
    live.end();
  });
});
