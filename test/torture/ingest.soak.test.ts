import { expect, it } from 'vitest';
import { tortureIngest } from './ingest.ts';

it('ingest: digests every accepted event once, although processes are killed', { timeout: 400_000 }, async () => {
  // With this seed Postgres is killed, then a hub, and then Postgres stops.
  const { problems, accepted, crashes } = await tortureIngest({ rounds: 3, seed: 2, seconds: 120 });
  expect(problems).toEqual([]);
  expect(accepted).toBeGreaterThan(20);
  expect(crashes).toBeGreaterThan(0);
});
