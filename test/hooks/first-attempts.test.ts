import { describe, expect, it } from 'vitest';
import { type Ended, FirstAttempts } from '#domains/hooks/delivery/first-attempts.ts';
import type { Recorded } from '#domains/hooks/delivery/recorder.ts';

const CREATED = '2026-11-28 00:00:00+00';

const ended = (deliveryId: string, webhookId: number, delivered = true, knownFailures = 0): Ended => ({
  deliveryId,
  webhookId,
  attempt: 1,
  trigger: 'push_events',
  outcome: {
    delivered,
    aborted: false,
    gone: false,
    retryAfterMs: 0,
    durationMs: 1,
    status: delivered ? 200 : 500,
    error: delivered ? null : 'The receiver answered 500',
    url: '',
    requestHeaders: {},
    requestBody: null,
    responseHeaders: {},
    responseBody: null,
  },
  delayMs: 0,
  probe: false,
  knownFailures,
});

/** A dispatch of one delivery to each of these hooks. The id of a delivery is that of its hook. */
const dispatch = (...webhookIds: number[]) => {
  const recorded: Recorded[] = [];
  const settled: string[] = [];
  const released: string[] = [];
  const slow = new Set<number>();
  const doubts = { count: 0 };
  const batch = new FirstAttempts(
    {
      record: (attempt) => recorded.push(attempt),
      settle: (attempts) => settled.push(...attempts.map(({ deliveryId }) => deliveryId)),
      release: (ids) => released.push(...ids),
      doubt: () => {
        doubts.count++;
      },
      isSlow: (webhookId) => slow.has(webhookId),
      onPace: (webhookIds, isSlow) => {
        for (const id of webhookIds) isSlow ? slow.add(id) : slow.delete(id);
      },
    },
    webhookIds.map((webhook_id) => ({ id: String(webhook_id), webhook_id })),
  );
  return { batch, recorded, settled, released, slow, doubts };
};

describe('the first attempts of a dispatch', () => {
  it('are inserted by dispatch if they succeed soon, and recorded after the commit otherwise', async () => {
    const { batch, recorded, settled } = dispatch(1, 2, 3, 4);
    const waiting = batch.wait(['1', '2', '3']);
    batch.end(ended('1', 1));
    batch.end(ended('2', 2, false));
    batch.end(ended('3', 3, true, 1));
    await waiting;
    expect(batch.take('1')?.deliveryId).toBe('1');
    // A failure counts against the hook, a success ends its failures, and the last has not ended.
    expect([batch.take('2'), batch.take('3'), batch.take('4')]).toEqual([null, null, null]);
    expect([recorded, settled]).toEqual([[], []]);
    batch.commit(CREATED);
    expect(settled).toEqual(['1']);
    expect(recorded.map(({ deliveryId, createdAt }) => [deliveryId, createdAt])).toEqual([
      ['2', CREATED],
      ['3', CREATED],
    ]);
    batch.end(ended('4', 4));
    expect(recorded.at(-1)).toMatchObject({ deliveryId: '4', createdAt: CREATED });
  });

  it('are not waited for long, and for a while not at all, if receivers do not answer', async () => {
    const { batch, slow } = dispatch(1, 2);
    const waiting = batch.wait(['1', '2']);
    batch.end(ended('2', 2));
    await waiting;
    expect([...slow]).toEqual([1]);
    await batch.wait(['1']);
    expect(batch.take('1')).toBeNull();
  });

  it('are released after the commit if they were not sent', async () => {
    const { batch, released } = dispatch(1, 2);
    batch.giveUp('1');
    await batch.wait(['1']);
    expect(released).toEqual([]);
    batch.commit(CREATED);
    expect(released).toEqual(['1']);
    batch.giveUp('2');
    expect(released).toEqual(['1', '2']);
  });

  it('are forgotten if the dispatch is rolled back, and looked for, because it may have been committed', () => {
    const { batch, recorded, settled, doubts } = dispatch(1, 2, 3);
    batch.end(ended('1', 1));
    batch.end(ended('2', 2, false));
    batch.take('1');
    batch.rollBack();
    expect(batch.isVoid).toBe(true);
    expect(doubts.count).toBe(1);
    expect(settled.sort()).toEqual(['1', '2']);
    batch.end(ended('3', 3));
    expect(recorded).toEqual([]);
  });
});
