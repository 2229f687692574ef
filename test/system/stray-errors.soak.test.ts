import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import { type Process, startProcess } from './process.ts';

// This code is loaded into the hub before it starts. A signal makes it throw errors that nothing can catch.
const FAULTS = `process.on('SIGUSR2', () => {
  setImmediate(() => { throw new Error('thrown by a timer'); });
  Promise.reject(new Error('rejected by nobody'));
});`;

const METRICS_TOKEN = 'token-of-who-reads-the-metrics';

let database: TestDatabase;
let dataDir: string;
let hub: Process;

beforeAll(async () => {
  database = await createTestDatabase();
  dataDir = await mkdtemp(join(tmpdir(), 'millrace-stray-'));
  hub = startProcess({
    DATABASE_URL: database.url,
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: '0',
    MILLRACE_METRICS_TOKEN: METRICS_TOKEN,
    NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(FAULTS)}"`,
  });
});
afterAll(async () => {
  hub.child.kill('SIGKILL');
  await hub.ended;
  await database.drop();
  await rm(dataDir, { recursive: true, force: true });
});

it('logs and counts uncaught errors, and continues', async () => {
  const url = await hub.url();
  hub.child.kill('SIGUSR2');
  const fatal = () => hub.log.filter((line) => line.includes('"level":60'));
  await until('both errors to be logged', () => fatal().length === 2);
  expect(fatal().join('\n')).toContain('thrown by a timer');
  expect(fatal().join('\n')).toContain('rejected by nobody');
  expect((await fetch(`${url}/-/readiness`)).status).toBe(200);
  const metrics = await fetch(`${url}/-/metrics`, { headers: { Authorization: `Bearer ${METRICS_TOKEN}` } });
  const counts = (await metrics.text()).match(/^millrace_stray_errors_total\{.*/gm);
  expect(counts).toEqual([
    'millrace_stray_errors_total{origin="unhandledRejection"} 1',
    'millrace_stray_errors_total{origin="uncaughtException"} 1',
  ]);
});
