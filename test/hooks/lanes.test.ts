import { describe, expect, it } from 'vitest';
import { Lanes, type Queued } from '#domains/hooks/delivery/lanes.ts';
import type { Recorded } from '#domains/hooks/delivery/recorder.ts';
import type { Outcome } from '#domains/hooks/delivery/send.ts';

const HOOK = 7;

const answered = (rest: Partial<Outcome> = {}): Outcome => ({
  delivered: true,
  aborted: false,
  gone: false,
  retryAfterMs: 0,
  durationMs: 1,
  status: 200,
  error: null,
  url: '',
  requestHeaders: {},
  requestBody: null,
  responseHeaders: {},
  responseBody: null,
  ...rest,
});

const queuedOf = (id: string, webhookId = HOOK): Queued => ({
  id,
  createdAt: '',
  batch: null,
  webhookId,
  attempt: 1,
  trigger: 'push_events',
  chainId: '',
  body: Buffer.alloc(0),
  target: new Error('none'),
  probe: false,
  knownFailures: 0,
});

/** Creates lanes in which the test decides when a delivery ends. */
const openLanes = () => {
  let rooms = 0;
  const sending = new Map<string, (outcome: Outcome) => void>();
  const lanes = new Lanes({
    send: ({ id }) => new Promise((resolve) => sending.set(id, resolve)),
    onRoom: () => rooms++,
  });
  let made = 0;
  const add = (count: number, webhookId = HOOK): string[] =>
    Array.from({ length: count }, () => {
      const id = String(++made);
      lanes.add(queuedOf(id, webhookId));
      return id;
    });
  const end = async (ids: readonly string[], outcome = answered()): Promise<Recorded[]> => {
    for (const id of ids) sending.get(id)?.(outcome);
    for (const id of ids) sending.delete(id);
    await new Promise(setImmediate);
    return ids.map((deliveryId) => ({
      deliveryId,
      createdAt: '',
      webhookId: HOOK,
      attempt: 1,
      trigger: 'push_events',
      outcome,
      delayMs: 0,
      probe: false,
      knownFailures: 0,
    }));
  };
  const taken = (count: number) => Array<number>(count).fill(HOOK);
  return { lanes, add, end, taken, sending: () => [...sending.keys()], rooms: () => rooms };
};

describe('the lanes of deliveries', () => {
  it('ask for more at once if a hook took all it was offered and its lane has emptied meanwhile', async () => {
    const { lanes, add, end, taken, rooms } = openLanes();
    const offered = lanes.room();
    const ids = add(lanes.freeByDefault);
    // All were sent and recorded before the round that took them ended.
    const firsts = ids.slice(0, 4);
    lanes.settle(await end(firsts), new Set());
    lanes.settle(await end(ids.slice(4)), new Set());
    expect(lanes.size).toBe(0);
    const before = rooms();
    lanes.filled(offered, taken(ids.length));
    expect(rooms()).toBe(before + 1);
  });

  it('ask for more at once if the lane has widened since the offer was made', async () => {
    const { lanes, add, end, taken, rooms, sending } = openLanes();
    add(40);
    for (let round = 0; round < 3; round++) lanes.settle(await end(sending()), new Set());
    const offered = lanes.room();
    const [{ free } = { free: 0 }] = offered;
    expect(free).toBeGreaterThan(lanes.freeByDefault);
    const ids = add(free);
    const wide = sending();
    lanes.settle(await end(wide), new Set());
    const before = rooms();
    lanes.filled(offered, taken(ids.length));
    // There is more room now than was offered then. Without this the rest would wait for the poll.
    expect(rooms()).toBe(before + 1);
  });

  it('ask for more once there is room in a lane that a hook filled', async () => {
    const { lanes, add, end, taken, rooms, sending } = openLanes();
    const offered = lanes.room();
    add(lanes.freeByDefault);
    lanes.filled(offered, taken(lanes.freeByDefault));
    expect(rooms()).toBe(0);
    for (let round = 0; round < 10 && rooms() === 0; round++) lanes.settle(await end(sending()), new Set());
    expect(rooms()).toBeGreaterThan(0);
  });

  it('do not ask again for a hook that took less than it was offered', () => {
    const { lanes, add, taken, rooms } = openLanes();
    const offered = lanes.room();
    add(3);
    lanes.filled(offered, taken(3));
    expect(rooms()).toBe(0);
  });

  it('hold a hook back while its failure is being recorded, and release its waiting deliveries if it is blocked', async () => {
    const { lanes, add, end, sending } = openLanes();
    const ids = add(8);
    const failed = await end(ids.slice(0, 1), answered({ delivered: false, status: 500 }));
    expect(sending()).toEqual(ids.slice(1, 4));
    expect(lanes.settle(failed, new Set([HOOK])).map(({ id }) => id)).toEqual(ids.slice(4));
    expect(lanes.size).toBe(3);
  });

  it('let new deliveries bypass the table only while the lane knows of none that wait there', async () => {
    const { lanes, add, end } = openLanes();
    expect(lanes.roomOf(HOOK)).toBeGreaterThan(lanes.freeByDefault);
    const ids = add(lanes.freeByDefault - 1);
    expect(lanes.roomOf(HOOK)).toBe(1);
    ids.push(...add(1));
    expect(lanes.roomOf(HOOK)).toBe(0);
    // A claim found no room for what may wait in the table.
    lanes.filled(lanes.room(), []);
    // Recorded, but the others still fill more than half of the lane.
    lanes.settle(await end(ids.slice(0, 1), answered({ durationMs: 2_000 })), new Set());
    expect(lanes.roomOf(HOOK)).toBe(0);
    lanes.settle(await end(ids.slice(1, 4)), new Set());
    expect(lanes.roomOf(HOOK)).toBeGreaterThan(0);
    lanes.settle(await end(ids.slice(4)), new Set());
    expect(lanes.roomOf(HOOK)).toBeGreaterThan(lanes.freeByDefault);
    lanes.close();
    expect(lanes.roomOf(HOOK)).toBe(0);
  });

  it('keep a delivery that a repeated dispatch added again when the earlier one is dropped', () => {
    const { lanes } = openLanes();
    const [first, again] = [queuedOf('1'), queuedOf('1')];
    for (const each of [first, again]) lanes.add(each);
    lanes.forget(first);
    expect(lanes.ids()).toEqual(['1']);
    lanes.forget(again);
    expect(lanes.size).toBe(0);
  });

  it('remember for a while how many requests at once a receiver takes', async () => {
    const { lanes, add, end, sending } = openLanes();
    add(20);
    while (lanes.size > 0) lanes.settle(await end(sending()));
    add(20);
    expect(sending().length).toBeGreaterThan(4);
  });
});
