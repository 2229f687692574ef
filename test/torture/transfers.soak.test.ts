import { expect, it } from 'vitest';
import { tortureTransfers } from './transfers.ts';

it('transfers: each ends whole or failed, whichever process is killed', { timeout: 600_000 }, async () => {
  const { problems, finished } = await tortureTransfers({ rounds: 2, seed: 1, seconds: 120 });
  expect(problems).toEqual([]);
  expect(finished).toBeGreaterThan(0);
});
