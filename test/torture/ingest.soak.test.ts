import { expect, it } from 'vitest';
import { tortureIngest } from './ingest.ts';

it('ingest: every event that was accepted is digested once, whatever is killed', { timeout: 400_000 }, async () => {
  const { problems, accepted } = await tortureIngest({ rounds: 3, seed: 1, seconds: 120 });
  expect(problems).toEqual([]);
  expect(accepted).toBeGreaterThan(20);
});
