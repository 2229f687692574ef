import { expect, it } from 'vitest';
import { tortureArtifacts } from './artifacts.ts';

it('artifacts: each row has its files, and each file its row', { timeout: 600_000 }, async () => {
  const { problems, uploaded, left } = await tortureArtifacts({ rounds: 3, seed: 1, seconds: 120 });
  expect(problems).toEqual([]);
  expect(uploaded).toBeGreaterThan(0);
  expect(left).toBeGreaterThan(0);
});
