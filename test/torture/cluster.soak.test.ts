import { afterAll, afterEach, beforeEach, expect, it } from 'vitest';
import { tortureArtifacts } from './artifacts.ts';
import { Cluster } from './cluster.ts';
import { tortureHooks } from './hooks.ts';
import { tortureIngest } from './ingest.ts';
import { torturePipelines } from './pipelines.ts';
import { tortureTransfers } from './transfers.ts';

// One cluster for all, because its start costs as much as the rounds. Each torture leaves it calm, and has its own projects.
// After a failure it may be anything but calm, so the next one, or the repetition, gets another.
let shared: Cluster | null = null;
let cluster: Cluster;
beforeEach(async () => {
  shared ??= await Cluster.open();
  cluster = shared;
});
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') await close();
});
const close = async () => {
  const ended = shared;
  shared = null;
  await ended?.close();
};
afterAll(close);

const SECONDS = 120;

it('transfers: each ends whole or failed, whichever process is killed', { timeout: 600_000 }, async () => {
  const options = { rounds: 2, seed: 1, seconds: SECONDS, issues: 1_500, cluster };
  const { problems, finished } = await tortureTransfers(options);
  expect(problems).toEqual([]);
  expect(finished).toBeGreaterThan(0);
});

it('artifacts: each row has its files, and each file its row', { timeout: 600_000 }, async () => {
  const { problems, uploaded, left } = await tortureArtifacts({ rounds: 3, seed: 1, seconds: SECONDS, cluster });
  expect(problems).toEqual([]);
  expect(uploaded).toBeGreaterThan(0);
  expect(left).toBeGreaterThan(0);
});

it('hooks: every committed event is delivered, whichever process is killed', { timeout: 400_000 }, async () => {
  const { problems, events } = await tortureHooks({ rounds: 2, seed: 1, seconds: SECONDS, cluster });
  expect(problems).toEqual([]);
  expect(events).toBeGreaterThan(10);
});

it('ingest: digests every accepted event once, although processes are killed', { timeout: 400_000 }, async () => {
  // With this seed Postgres is killed, then a hub, and then Postgres stops.
  const { problems, accepted, crashes } = await tortureIngest({ rounds: 3, seed: 2, seconds: SECONDS, cluster });
  expect(problems).toEqual([]);
  expect(accepted).toBeGreaterThan(20);
  expect(crashes).toBeGreaterThan(0);
});

it('pipelines: each ends as its jobs do, whichever process is killed', { timeout: 600_000 }, async () => {
  const options = { rounds: 2, seed: 1, seconds: SECONDS, cluster };
  const { problems, pipelines, acknowledged, artifacts } = await torturePipelines(options);
  expect(problems).toEqual([]);
  expect(pipelines).toBeGreaterThan(0);
  expect(acknowledged).toBeGreaterThan(0);
  expect(artifacts).toBeGreaterThan(0);
});
