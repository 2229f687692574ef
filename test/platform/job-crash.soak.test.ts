import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { tolerateLosses } from '#platform/db/pool.ts';
import { freeJobsOfProcess, freeOrphanedJobs } from '#platform/job-runner/locks.ts';
import { startProcesses } from '#platform/process/processes.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices } from '../support/services.ts';
import { until } from '../support/until.ts';

const HEARTBEAT_MS = 200;
const DEAD_AFTER_MS = 1_500;
const SCRIPT = fileURLToPath(new URL('../support/job-process.ts', import.meta.url));

interface Worker {
  readonly id: string;
  readonly child: ChildProcess;
}

let database: TestDatabase;
let pool: pg.Pool;
const children: ChildProcess[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  pool = tolerateLosses(new pg.Pool({ connectionString: database.url, max: 2 }));
  await pool.query('create table runs (id serial, process uuid, job text, attempt int, what text)');
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await pool.query('truncate runs; delete from hub_processes; delete from graphile_worker._private_jobs');
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const startWorker = async (): Promise<Worker> => {
  const child = spawn(process.execPath, [SCRIPT, database.url, String(HEARTBEAT_MS), String(DEAD_AFTER_MS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) return { id: line, child };
  throw new Error('the worker did not start');
};

const kill = async ({ child }: Worker) => {
  child.kill('SIGKILL');
  await once(child, 'exit');
};

const add = (task: string, name: string, hang: boolean) =>
  pool.query('select graphile_worker.add_job($1, $2::json, max_attempts => 2)', [task, JSON.stringify({ name, hang })]);

const runs = async (job: string) =>
  (
    await pool.query<{ process: string; attempt: number; what: string }>(
      'select process, attempt, what from runs where job = $1 order by id',
      [job],
    )
  ).rows;

const count = (job: string, what: string) => async () => (await runs(job)).filter((run) => run.what === what).length;

describe('kill -9', () => {
  it('lets another worker take over the jobs at once, without the loss of an attempt', async () => {
    const first = await startWorker();
    await add('test.short', 'short', true);
    await add('test.long', 'long', true);
    await until('both run', async () => (await runs('short')).length + (await runs('long')).length === 2);
    const second = await startWorker();
    await kill(first);
    const killedAt = performance.now();
    for (const name of ['short', 'long'])
      await until(`${name} is taken up`, async () => (await count(name, 'started')()) === 2);
    expect(performance.now() - killedAt).toBeLessThan(30_000);
    expect(await runs('long')).toEqual([
      { process: first.id, attempt: 1, what: 'started' },
      { process: second.id, attempt: 2, what: 'started' },
    ]);
    const { rows } = await pool.query('select attempts, max_attempts from graphile_worker._private_jobs');
    expect(rows).toEqual([
      { attempts: 2, max_attempts: 3 },
      { attempts: 2, max_attempts: 3 },
    ]);
    expect((await pool.query('select id from hub_processes')).rows).toEqual([{ id: second.id }]);
  });

  it('is recovered from by a restart if there was only one process', async () => {
    const first = await startWorker();
    await add('test.long', 'alone', true);
    await until('it runs', async () => (await runs('alone')).length === 1);
    await kill(first);
    await pool.query(`update graphile_worker._private_jobs set payload = '{"name": "alone", "hang": false}'`);
    await startWorker();
    await until('it is finished', async () => (await count('alone', 'finished')()) === 1);
    await until(
      'it is gone',
      async () => (await pool.query('select from graphile_worker._private_jobs')).rows.length === 0,
    );
  });

  it('costs a job no attempt at first, but a job that kills every process is given up', async () => {
    await add('test.short', 'poison', true);
    const dead = '00000000-0000-4000-8000-000000000003';
    const seen: unknown[] = [];
    for (let crash = 1; crash <= 7; crash++) {
      await pool.query(
        'update graphile_worker._private_jobs set attempts = attempts + 1, locked_by = $1, locked_at = now()',
        [`${dead}:short:1;`],
      );
      expect(await freeJobsOfProcess(pool, dead)).toMatchObject([
        { name: 'test.short', crashes: crash, gave_up: crash === 7 },
      ]);
      const { rows } = await pool.query(
        `select max_attempts - attempts as left, is_available, locked_by, last_error, round(extract(epoch from run_at - now()))::int as pause
         from graphile_worker._private_jobs`,
      );
      expect(rows[0]).toMatchObject({
        locked_by: null,
        is_available: crash < 7,
        last_error: 'The process that ran this job died.',
      });
      seen.push([rows[0].left, rows[0].pause]);
    }
    expect(seen).toEqual([
      [2, 0],
      [2, 0],
      [2, 5],
      [2, 10],
      [2, 15],
      [1, 15],
      [0, 15],
    ]);
  });
});

describe('a process that was declared dead', () => {
  it('stops its jobs when it comes back, registers again and continues to work', async () => {
    const first = await startWorker();
    await add('test.long', 'paused', true);
    await until('it runs', async () => (await runs('paused')).length === 1);
    const second = await startWorker();
    first.child.kill('SIGSTOP');
    await until('the other takes it up', async () => (await count('paused', 'started')()) === 2);
    first.child.kill('SIGCONT');
    await until('the first stops it', async () => (await count('paused', 'aborted')()) === 1);
    expect((await runs('paused')).find((run) => run.what === 'aborted')?.process).toBe(first.id);
    await until(
      'it is registered again',
      async () => (await pool.query('select from hub_processes')).rows.length === 2,
    );
    const { rows } = await pool.query('select locked_by from graphile_worker._private_jobs');
    expect(rows).toEqual([{ locked_by: `${second.id}:long:1;` }]);
    await kill(second);
    await until('it works on', async () => (await count('paused', 'started')()) === 3);
    expect((await runs('paused')).at(-1)).toMatchObject({ process: first.id, what: 'started' });
  });
});

describe('the registry', () => {
  it('retries the handler that frees the leases of a dead process, then forgets the process', async () => {
    const { services, [Symbol.asyncDispose]: dispose } = await createTestServices(database.url);
    const processes = await startProcesses({ services, heartbeatMs: 50, deadAfterMs: 1_000 });
    const dead = '00000000-0000-4000-8000-000000000001';
    const calls: string[] = [];
    processes.onProcessDead(async (id) => {
      calls.push(id);
      if (calls.length < 3) throw new Error('not yet');
    });
    await pool.query(
      `insert into hub_processes (id, role, hostname, seen_at) values ($1, 'worker', 'gone', now() - interval '1 hour')`,
      [dead],
    );
    await until(
      'it is buried',
      async () => (await pool.query('select from hub_processes where id = $1', [dead])).rows.length === 0,
    );
    expect(calls).toEqual([dead, dead, dead]);
    expect(await processes.deadProcesses()).toEqual([]);
    await processes.stop();
    expect((await pool.query('select from hub_processes')).rows).toEqual([]);
    await dispose();
  });

  it('frees jobs locked by unknown processes', async () => {
    await add('test.short', 'orphan', false);
    await pool.query(
      `update graphile_worker._private_jobs set locked_at = now(), locked_by = '00000000-0000-4000-8000-000000000002:short:1;'`,
    );
    expect(await freeOrphanedJobs(pool)).toMatchObject([{ name: 'test.short', crashes: 1, gave_up: false }]);
    expect(await freeOrphanedJobs(pool)).toEqual([]);
  });
});
