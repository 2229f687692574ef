import { expect, it } from 'vitest';
import { torturePipelines } from './pipelines.ts';

it('pipelines: each ends as its jobs do, whichever process is killed', { timeout: 600_000 }, async () => {
  const { problems, pipelines, acknowledged, artifacts } = await torturePipelines({ rounds: 2, seed: 1, seconds: 120 });
  expect(problems).toEqual([]);
  expect(pipelines).toBeGreaterThan(0);
  expect(acknowledged).toBeGreaterThan(0);
  expect(artifacts).toBeGreaterThan(0);
});
