import { expect, it } from 'vitest';
import { tortureHooks } from './hooks.ts';

it('hooks: every committed event is delivered, whichever process is killed', { timeout: 400_000 }, async () => {
  const { problems, events } = await tortureHooks({ rounds: 2, seed: 1, seconds: 120 });
  expect(problems).toEqual([]);
  expect(events).toBeGreaterThan(10);
});
