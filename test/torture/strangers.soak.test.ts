import { expect, it } from 'vitest';
import { tortureStrangers } from './strangers.ts';

it("strangers: honest users are served, and the hub's resources are freed", { timeout: 400_000 }, async () => {
  const { problems, honest } = await tortureStrangers({ rounds: 3, seed: 1, judgesTime: false, pauseMs: 150 });
  expect(problems).toEqual([]);
  expect(honest.requests).toBeGreaterThan(50);
});
