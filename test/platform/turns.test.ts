import { expect, it } from 'vitest';
import { createTurns, type Release, type TurnLimits } from '#platform/caller/turns.ts';
import { as, settled } from './callers.ts';

const setUp = (limits: TurnLimits) => {
  const bound = createTurns(limits, { busy: 'busy', aborted: () => new Error('aborted') });
  const turns: string[] = [];
  const releases: Release[] = [];
  const ask = (ip: string, signal?: AbortSignal) =>
    as(ip, () => bound.take(signal)).then((release) => {
      turns.push(ip);
      releases.push(release);
    });
  return { bound, turns, releases, ask };
};
const TOO_MANY = { code: 'too_many_requests', details: { retryAfterSeconds: 10 } };
const BUSY = { code: 'unavailable', details: { retryAfterSeconds: 10 } };

it('limits one caller to its share, and gives other callers theirs', async () => {
  const { bound, turns, releases, ask } = setUp({ ofCaller: 2, ofAll: 4, waiting: { ofCaller: 9, ofAll: 9 } });
  const all = ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'c'].map((ip) => ask(ip));
  await settled();
  expect(turns).toEqual(['a', 'a', 'b', 'b']);
  expect(bound.taken()).toBe(4);
  releases[2]?.();
  releases[2]?.();
  await settled();
  expect(turns.slice(4)).toEqual(['b']);
  releases[0]?.();
  await settled();
  expect(turns.slice(5)).toEqual(['a']);
  while (turns.length < 8) {
    for (const release of [...releases]) release();
    await settled();
  }
  await Promise.all(all);
  for (const release of releases) release();
  expect(bound.taken()).toBe(0);
});

it('takes turns between callers, however many requests of one caller wait', async () => {
  const { turns, releases, ask } = setUp({ ofCaller: 1, ofAll: 1, waiting: { ofCaller: 9, ofAll: 9 } });
  for (const ip of ['a', 'a', 'a', 'a', 'b', 'c']) void ask(ip);
  for (let turn = 0; turn < 5; turn++) {
    await settled();
    releases[turn]?.();
  }
  await settled();
  expect(turns).toEqual(['a', 'a', 'b', 'c', 'a', 'a']);
});

it('refuses a caller with too many waiting requests, and everyone when too many wait in all', async () => {
  const { ask } = setUp({ ofCaller: 1, ofAll: 2, waiting: { ofCaller: 1, ofAll: 2 } });
  for (const ip of ['a', 'a', 'b', 'b']) void ask(ip);
  await expect(ask('a')).rejects.toMatchObject(TOO_MANY);
  await expect(ask('c')).rejects.toMatchObject(BUSY);
});

it('refuses at once a request that may not wait', () => {
  const bound = setUp({ ofCaller: 1, ofAll: 2 }).bound;
  const release = as('a', () => bound.takeNow());
  expect(() => as('a', () => bound.takeNow())).toThrow(expect.objectContaining(TOO_MANY));
  as('b', () => bound.takeNow());
  expect(() => as('c', () => bound.takeNow())).toThrow(expect.objectContaining(BUSY));
  release();
  expect(as('c', () => bound.takeNow())).toBeTypeOf('function');
});

it('counts all addresses of a customer as one caller', () => {
  const bound = setUp({ ofCaller: 1, ofAll: 2 }).bound;
  as('2001:db8:1:2::1', () => bound.takeNow());
  expect(() => as('2001:db8:1:2:ffff::2', () => bound.takeNow())).toThrow(expect.objectContaining(TOO_MANY));
  expect(as('2001:db8:1:3::1', () => bound.takeNow())).toBeTypeOf('function');
});

it('removes an aborted request from the queue', async () => {
  const { turns, releases, ask } = setUp({ ofCaller: 1, ofAll: 1, waiting: { ofCaller: 9, ofAll: 9 } });
  const gone = new AbortController();
  await ask('a');
  const waiting = ask('b', gone.signal);
  void ask('c');
  gone.abort();
  await expect(waiting).rejects.toThrow('aborted');
  releases[0]?.();
  await settled();
  expect(turns).toEqual(['a', 'c']);
});

it('lets the hub itself exceed the share of a caller, and never refuses it', async () => {
  const bound = setUp({ ofCaller: 1, ofAll: 2 }).bound;
  const first = await bound.take();
  await bound.take();
  const third = bound.take();
  first();
  expect(await third).toBeTypeOf('function');
});
