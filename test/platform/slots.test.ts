import { expect, test } from 'vitest';
import { SharedSlots, Slots } from '#platform/concurrency/slots.ts';

test('slots bound the tasks that run at the same time, in order, also after failures', async () => {
  const slots = new Slots(2);
  const started: number[] = [];
  const endings: (() => void)[] = [];
  const tasks = [0, 1, 2, 3, 4].map((number) =>
    slots.run(async () => {
      started.push(number);
      await new Promise<void>((resolve) => {
        endings[number] = resolve;
      });
      if (number === 0) throw new Error('the first task failed');
      return number;
    }),
  );
  const results = Promise.allSettled(tasks);
  expect(started).toEqual([0, 1]);
  endings[0]?.();
  await expect(tasks[0]).rejects.toThrow('the first task failed');
  expect(started).toEqual([0, 1, 2]);
  for (const number of [1, 2, 3, 4]) {
    endings[number]?.();
    await tasks[number];
  }
  expect((await results).map(({ status }) => status)).toEqual(['rejected', ...Array(4).fill('fulfilled')]);
  expect(started).toEqual([0, 1, 2, 3, 4]);
});

test('shared slots leave room for the tasks of others, however many one owner has', async () => {
  const slots = new SharedSlots<string>({ all: 3, each: 2 });
  const started: string[] = [];
  const endings: (() => void)[] = [];
  const start = (owner: string) =>
    slots.run(owner, async () => {
      started.push(owner);
      await new Promise<void>((resolve) => endings.push(resolve));
    });
  const greedy = Array.from({ length: 5 }, () => start('greedy'));
  const other = start('other');
  const last = start('last');
  expect(started).toEqual(['greedy', 'greedy', 'other']);
  endings[2]?.();
  await other;
  expect(started).toEqual(['greedy', 'greedy', 'other', 'last']);
  for (let n = 0; n < greedy.length + 2; n++) {
    endings[n]?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([...greedy, last]);
  expect(started).toEqual(['greedy', 'greedy', 'other', 'last', 'greedy', 'greedy', 'greedy']);
});
