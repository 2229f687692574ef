import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { HeldJobs } from '#platform/job-runner/held-jobs.ts';

it('holds a retry that starts before the earlier attempt is released', async () => {
  const held = new HeldJobs();
  held.take('1');
  held.take('2');
  held.release('1', 1);
  held.take('1');
  held.release('2', 2);
  // The timers fire in the order of their delays, so the release of job 1 comes first.
  while (held.ids().includes('2')) await sleep(1);
  expect(held.ids()).toEqual(['1']);
  held.release('1');
  expect(held.ids()).toEqual([]);
});
