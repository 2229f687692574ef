import { afterEach, describe, expect, it, vi } from 'vitest';
import { Notifier } from '#domains/hooks/delivery/notifier.ts';
import type { RecordedHook } from '#domains/hooks/delivery/record.ts';

const NONE: ReadonlySet<number> = new Set();
const hook = (id: number, ...attempt_ids: number[]): RecordedHook => ({
  id,
  project_id: null,
  namespace_ids: [1],
  attempt_ids,
});
const idsOf = (hooks: readonly RecordedHook[]) => hooks.map(({ id, attempt_ids }) => [id, ...attempt_ids]);

const openNotifier = (everyMs: number) => {
  const later: number[][] = [];
  const notifier = new Notifier({
    everyMs,
    notify: async (hooks) => {
      later.push(...idsOf(hooks));
    },
  });
  /** Records as the recorder does, and returns the notifications that are sent at once. */
  const record = (failed: ReadonlySet<number>, ...hooks: RecordedHook[]) => {
    const due = notifier.due(hooks, failed);
    notifier.settled(hooks, due);
    return idsOf(due);
  };
  return { notifier, record, later };
};

describe('notifications of deliveries', () => {
  afterEach(() => vi.useRealTimers());

  it('are sent at once after a pause, and then collected', async () => {
    const { notifier, record, later } = openNotifier(60_000);
    expect(record(NONE, hook(1, 10), hook(2, 11))).toEqual([
      [1, 10],
      [2, 11],
    ]);
    expect(record(NONE, hook(1, 12))).toEqual([]);
    expect(record(NONE, hook(1, 13, 14), hook(3, 15))).toEqual([[3, 15]]);
    expect(later).toEqual([]);
    await notifier.stop();
    expect(later).toEqual([[1, 12, 13, 14]]);
  });

  it('include the collected attempts once each, even if no further attempt follows', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const { notifier, record, later } = openNotifier(20);
    record(NONE, hook(1, 1));
    record(NONE, hook(1, 2));
    record(NONE, hook(1, 3));
    await vi.advanceTimersByTimeAsync(20);
    expect(later).toEqual([[1, 2, 3]]);
    await notifier.stop();
  });

  it('are sent at once for failures, with the attempts collected before', () => {
    const { record } = openNotifier(60_000);
    record(NONE, hook(1, 1), hook(2, 2));
    record(NONE, hook(1, 3), hook(2, 4));
    expect(record(new Set([1]), hook(1, 5), hook(2, 6))).toEqual([[1, 3, 5]]);
  });

  it('stay due if the transaction failed', () => {
    const { notifier, record } = openNotifier(60_000);
    notifier.due([hook(1, 1)], NONE);
    expect(record(NONE, hook(1, 1))).toEqual([[1, 1]]);
  });

  it('are split into events of limited size', () => {
    const { record } = openNotifier(60_000);
    const ids = Array.from({ length: 1_100 }, (_, n) => n);
    expect(record(NONE, hook(1, ...ids)).map((each) => each.length - 1)).toEqual([500, 500, 100]);
  });
});
