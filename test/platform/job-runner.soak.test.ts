import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { type Context, type Services, systemActor } from '#platform/context.ts';
import { type CreateContext, createContextFactory } from '#platform/create-context.ts';
import { type JobRunner, startJobRunner } from '#platform/job-runner/job-runner.ts';
import { pruneJobs } from '#platform/job-runner/prune.ts';
import {
  defineJob,
  type EnqueueOptions,
  FinalJobError,
  type JobDefinition,
  type JobRun,
  runnable,
} from '#platform/jobs.ts';
import { type Guarded, type Processes, startProcesses } from '#platform/process/processes.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';
import { until } from '../support/until.ts';

let database: TestDatabase;
const helds: TestServices[] = [];
let services: Services;
let createContext: CreateContext;
let processes: Processes;
const running: JobRunner[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  const held = await createTestServices(database.url);
  helds.push(held);
  ({ services } = held);
  createContext = createContextFactory(services);
  processes = await startProcesses({ services });
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((runner) => runner.stop()));
  await services.pool.query('delete from graphile_worker._private_jobs');
});
afterAll(async () => {
  await processes.stop();
  for (const held of helds) await held[Symbol.asyncDispose]();
  await database.drop();
});

const Numbered = z.object({ n: z.number() });
type Numbered = z.infer<typeof Numbered>;
const job = (
  name: string,
  run: (ctx: Context, input: Numbered, run: JobRun) => Promise<void>,
  more: Partial<Pick<JobDefinition<Numbered>, 'maxAttempts' | 'long' | 'remote' | 'cron' | 'sharedMs'>> = {},
) => defineJob({ name, input: Numbered, maxAttempts: 3, run, ...more });

const start = async (
  jobs: JobDefinition<Numbered>[],
  by: Services = services,
  of: Processes = processes,
  more: { readonly pollMs?: number } = {},
): Promise<JobRunner> => {
  const runner = await startJobRunner({
    services: by,
    processes: of,
    createContext: createContextFactory(by),
    jobs: jobs.map(runnable),
    concurrency: 4,
    reconcileMs: 300,
    ...more,
  });
  running.push(runner);
  return runner;
};

const enqueue = (definition: JobDefinition<Numbered>, ns: number[], options?: EnqueueOptions) =>
  createContext({ actor: systemActor }).transaction(async (tx) => {
    for (const n of ns) tx.enqueue(definition, { n }, options);
  });

/** Waits until a statement of the runner waits for a lock, and cuts its connection. */
const cutBlocked = (what: string) =>
  until(`${what} to be cut`, async () => {
    const { rows } = await services.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'millrace jobs' and wait_event_type = 'Lock'`,
    );
    return rows.length > 0;
  });

const numbersTo = (count: number) => Array.from({ length: count }, (_, n) => n);
const queued = async () => (await services.pool.query('select * from graphile_worker._private_jobs order by id')).rows;

describe('a job', () => {
  it('runs once for all requests of a key while it waits for more, and later ones do not postpone it', async () => {
    const seen: number[] = [];
    const shared = job('test.shared', async (_ctx, { n }) => void seen.push(n), { sharedMs: 3_600_000 });
    await enqueue(shared, [1], { key: 'a' });
    const [first] = await queued();
    await enqueue(shared, [2], { key: 'a' });
    const rows = await queued();
    expect(rows.map(({ run_at }) => String(run_at))).toEqual([String(first.run_at)]);
    // The same request again changes nothing.
    await enqueue(shared, [2], { key: 'a' });
    expect(await queued()).toEqual(rows);
    const runner = await start([shared]);
    await runner.drain();
    expect(seen).toEqual([2]);
  });

  it('runs once after it is committed, with the hub as its actor, and is deleted', async () => {
    const seen: { n: number; run: JobRun; admin: boolean; request: string }[] = [];
    const short = job('test.short', async (ctx, { n }, run) => {
      seen.push({ n, run, admin: ctx.actor.isSystem, request: ctx.requestId });
    });
    const runner = await start([short]);
    await enqueue(short, [1]);
    await runner.drain();
    expect(seen).toMatchObject([{ n: 1, run: { attempt: 1, lastAttempt: false }, admin: true }]);
    expect(seen[0]?.request).toMatch(/^job-\d+-1$/);
    expect(await queued()).toEqual([]);
  });

  it('is locked under the name of its process', async () => {
    let locked: unknown[] = [];
    const look = (name: string, long: boolean) =>
      job(
        name,
        async () => {
          locked.push(...(await services.pool.query('select locked_by from graphile_worker._private_jobs')).rows);
        },
        { long },
      );
    for (const definition of [look('test.short', false), look('test.long', true)]) {
      locked = [];
      const runner = await start([definition]);
      await enqueue(definition, [1]);
      await runner.drain();
      expect(locked).toEqual([
        { locked_by: expect.stringMatching(new RegExp(`^${services.processId}:(short|long):1;$`)) },
      ]);
      await runner.stop();
      running.length = 0;
    }
  });

  it('is retried later when it fails, and given up after its last attempt', async () => {
    const runs: JobRun[] = [];
    const failing = job('test.failing', async (_ctx, _input, run) => {
      runs.push(run);
      throw new Error('broken');
    });
    const runner = await start([failing]);
    await enqueue(failing, [1]);
    for (let i = 0; i < 4; i++) {
      await runner.drain();
      await services.pool.query(`update graphile_worker._private_jobs set run_at = now()`);
      await services.pool.query(`select pg_notify('jobs:insert', '{"count":1}')`);
    }
    expect(runs).toEqual([
      { attempt: 1, lastAttempt: false },
      { attempt: 2, lastAttempt: false },
      { attempt: 3, lastAttempt: true },
    ]);
    expect(await queued()).toMatchObject([{ attempts: 3, last_error: 'broken', locked_by: null, is_available: false }]);
  });

  it('loses no attempt because the database is away', async () => {
    let runs = 0;
    const short = job(
      'test.short',
      async () => {
        runs++;
        if (runs < 3) throw new Error('Connection terminated unexpectedly');
      },
      { maxAttempts: 1 },
    );
    await start([short]);
    await enqueue(short, [1]);
    await until('it has succeeded', () => runs === 3);
    await until('it is deleted', async () => (await queued()).length === 0);
  });

  it('ends at once with a final error', async () => {
    let runs = 0;
    for (const long of [false, true]) {
      const final = job(
        `test.final.${long}`,
        async () => {
          runs++;
          throw new FinalJobError('no use');
        },
        { long },
      );
      const runner = await start([final]);
      await enqueue(final, [1]);
      await runner.drain();
    }
    expect(runs).toBe(2);
    for (const row of await queued())
      expect(row).toMatchObject({ last_error: 'no use', is_available: false, locked_by: null });
  });

  it('fails if its input is invalid, while others go on', async () => {
    const done: number[] = [];
    const short = job('test.short', async (_ctx, { n }) => void done.push(n));
    const runner = await start([short]);
    await services.pool.query(`select graphile_worker.add_job('test.short', '{"n": "x"}')`);
    await enqueue(short, [5]);
    await runner.drain();
    expect(done).toEqual([5]);
    expect(await queued()).toMatchObject([{ attempts: 1, is_available: true }]);
  });

  it('is left for processes that know it if its name is unknown', async () => {
    const done: number[] = [];
    const short = job('test.short', async (_ctx, { n }) => void done.push(n));
    const unknown = job('test.unknown', async () => {});
    const runner = await start([short]);
    await enqueue(unknown, [1]);
    await enqueue(short, [2]);
    await runner.drain();
    expect(done).toEqual([2]);
    expect(await queued()).toMatchObject([{ attempts: 0, locked_by: null }]);
  });

  it('runs after a running job with the same key', async () => {
    const done: number[] = [];
    const entered = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const keyed = job('test.keyed', async (_ctx, { n }) => {
      entered.resolve();
      await release.promise;
      done.push(n);
    });
    const runner = await start([keyed]);
    await enqueue(keyed, [1], { key: 'k' });
    await entered.promise;
    await enqueue(keyed, [2], { key: 'k' });
    await enqueue(keyed, [3], { key: 'k' });
    release.resolve();
    await runner.drain();
    expect(done.toSorted()).toContain(3);
    expect(done).toContain(1);
  });

  it('gets an empty input if cron started it', async () => {
    const inputs: unknown[] = [];
    const ticking = defineJob({
      name: 'test.ticking',
      input: z.object({}).strict(),
      maxAttempts: 1,
      cron: '* * * * *',
      run: async (_ctx, input) => void inputs.push(input),
    });
    const runner = await startJobRunner({
      services,
      processes,
      createContext,
      jobs: [runnable(ticking)],
      concurrency: 1,
    });
    running.push(runner);
    await services.pool.query(
      `select graphile_worker.add_job('test.ticking', '{"_cron": {"ts": "2026-01-01T00:00:00Z"}}')`,
    );
    await runner.drain();
    expect(inputs[0]).toEqual({});
    const known = await services.pool.query('select identifier from graphile_worker._private_known_crontabs');
    expect(known.rows).toEqual([{ identifier: 'test.ticking' }]);
  });
});

describe('pruning', () => {
  it('deletes jobs given up long ago and crash counts of deleted jobs, and nothing else', async () => {
    const old = job('test.old', async () => {});
    await enqueue(old, [1, 2, 3]);
    const [first, second] = await queued();
    await services.pool.query(
      `update graphile_worker._private_jobs set attempts = max_attempts, updated_at = now() - interval '31 days' where id = $1`,
      [first.id],
    );
    await services.pool.query('update graphile_worker._private_jobs set attempts = max_attempts where id = $1', [
      second.id,
    ]);
    await services.pool.query('insert into job_crashes values ($1, 1), ($2, 1)', [first.id, second.id]);
    await pruneJobs.run(createContext({ actor: systemActor }), {}, { attempt: 1, lastAttempt: false });
    expect((await queued()).map((row) => row.payload)).toEqual([{ n: 2 }, { n: 3 }]);
    expect((await services.pool.query('select job_id from job_crashes')).rows).toEqual([{ job_id: second.id }]);
  });
});

describe('a runner', () => {
  it('shares the jobs with another, and runs each once', async () => {
    const held = await createTestServices(database.url);
    helds.push(held);
    const others = await startProcesses({ services: held.services });
    const runs: string[] = [];
    const counted = (process: string) =>
      job('test.counted', async (_ctx, { n }) => {
        runs.push(`${process}:${n}`);
        await sleep(2);
      });
    const one = await start([counted('one')]);
    const two = await start([counted('two')], held.services, others);
    const takers = () => new Set(runs.map((run) => run.split(':')[0]));
    let enqueued = 0;
    // On a busy machine the first runner may take all jobs before the second looks.
    await until('both have run some', async () => {
      await enqueue(counted('any'), numbersTo(200));
      enqueued += 200;
      await one.drain();
      return takers().size === 2;
    });
    await two.stop();
    await others.stop();
    expect(takers()).toEqual(new Set(['one', 'two']));
    expect(runs).toHaveLength(enqueued);
    const times = Map.groupBy(runs, (run) => Number(run.split(':')[1]));
    for (const n of numbersTo(200)) expect(times.get(n)).toHaveLength(enqueued / 200);
  });

  it('does not let long jobs hold up short ones', async () => {
    const release = Promise.withResolvers<void>();
    const long = job('test.long', () => release.promise, { long: true });
    const short = job('test.short', async () => {});
    const runner = await start([long, short]);
    await enqueue(long, numbersTo(8));
    await enqueue(short, numbersTo(20));
    await until('the short ones are done', async () => (await queued()).length === 8);
    release.resolve();
    await runner.drain();
    expect(await queued()).toEqual([]);
  });

  it('runs jobs that wait for other servers without delaying any other kind', async () => {
    const release = Promise.withResolvers<void>();
    const remote = job('test.remote', () => release.promise, { remote: true });
    const long = job('test.long', async () => {}, { long: true });
    const runner = await start([remote, long]);
    await enqueue(remote, numbersTo(8));
    await enqueue(long, numbersTo(5));
    await until('the long ones are done', async () => (await queued()).length === 8);
    release.resolve();
    await runner.drain();
    expect(await queued()).toEqual([]);
  });

  it('starts a job after its commit without waiting for the poll', async () => {
    const started: number[] = [];
    const short = job('test.short', async (_ctx, { n }) => void started.push(n));
    const runner = await start([short], services, processes, { pollMs: 3_600_000 });
    for (let n = 0; n < 15; n++) {
      await enqueue(short, [n]);
      await until('it has run', () => started.length === n + 1);
    }
    await runner.drain();
  });

  it('aborts running jobs when stopped, and returns them without the loss of an attempt', async () => {
    const entered: string[] = [];
    const waiting = (name: string, long: boolean, obeys: boolean) =>
      job(
        name,
        async (ctx) => {
          entered.push(name);
          // A job that ignores the signal never ends, since at its end it would look for the stopped runner.
          if (!obeys) return new Promise<void>(() => {});
          await sleep(60_000, undefined, { ref: false, signal: ctx.signal });
        },
        { long, maxAttempts: 1 },
      );
    const definitions = [
      waiting('test.obeys', false, true),
      waiting('test.long', true, true),
      waiting('test.deaf', true, false),
    ];
    const runner = await start(definitions);
    for (const definition of definitions) await enqueue(definition, [1]);
    await until('all have started', () => entered.length === 3);
    // It ends although a job never does.
    await runner.stop();
    running.length = 0;
    const rows = await queued();
    expect(rows).toHaveLength(3);
    for (const row of rows)
      expect(row).toMatchObject({ locked_by: null, is_available: true, attempts: 1, max_attempts: 2 });
  });

  it('completes a job that ends by itself while its runner stops', async () => {
    const steps: string[] = [];
    const slow = job('test.ends', async (ctx) => {
      steps.push('began');
      await until('the runner stops', () => ctx.signal.aborted);
      steps.push('ended');
    });
    const runner = await start([slow]);
    await enqueue(slow, [1]);
    await until('it has begun', () => steps.length === 1);
    await runner.stop();
    running.length = 0;
    expect(steps).toEqual(['began', 'ended']);
    expect(await queued()).toEqual([]);
  });

  it('keeps no reference to its jobs when stopped', async () => {
    setFlagsFromString('--expose-gc');
    const collect: () => void = runInNewContext('gc');
    const runOnce = async (): Promise<WeakRef<object>> => {
      const reached = { done: [] as number[] };
      const short = job('test.short', async (_ctx, { n }) => void reached.done.push(n));
      const runner = await start([short]);
      await enqueue(short, [1]);
      await runner.drain();
      expect(reached.done).toEqual([1]);
      await runner.stop();
      running.length = 0;
      return new WeakRef(reached);
    };
    const reached = await runOnce();
    await until('it is let go', () => {
      collect();
      return reached.deref() === undefined;
    });
  });

  it('finds jobs that were lost while they were fetched', async () => {
    const done: number[] = [];
    const short = job('test.short', async (_ctx, { n }) => void done.push(n));
    const runner = await start([short]);
    await services.pool.query(
      `insert into graphile_worker._private_jobs (task_id, payload, attempts, max_attempts, locked_at, locked_by)
       select id, '{"n": 1}', 1, 1, now() - make_interval(secs => age), $1
       from graphile_worker._private_tasks, unnest(array[0, 20]) as age where identifier = 'test.short'`,
      [`${services.processId}:short:1;`],
    );
    await until('the older one has run', async () => done.length === 1 && (await queued()).length === 1);
    expect(await queued()).toMatchObject([{ locked_by: `${services.processId}:short:1;` }]);
    await services.pool.query('delete from graphile_worker._private_jobs');
    await runner.drain();
  });

  it('recovers when all its connections are cut', async () => {
    const done: number[] = [];
    const short = job('test.short', async (_ctx, { n }) => {
      await sleep(20);
      done.push(n);
    });
    const long = job(
      'test.long',
      async (_ctx, { n }) => {
        await sleep(300);
        done.push(n);
      },
      { long: true },
    );
    const runner = await start([short, long]);
    await enqueue(short, numbersTo(50));
    await enqueue(long, [50, 51]);
    await until('some are done', () => done.length > 5);
    for (let i = 0; i < 3; i++) {
      await services.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'millrace jobs'`,
      );
      await until('it has connected again', async () => {
        const { rows } = await services.pool.query(
          `select from pg_stat_activity where datname = current_database() and application_name = 'millrace jobs'`,
        );
        return rows.length > 0;
      });
    }
    await enqueue(short, [52]);
    await runner.drain();
    // Jobs run at least once: a job whose result was lost runs again.
    expect([...new Set(done)].sort((a, b) => a - b)).toEqual(numbersTo(53));
    expect(await queued()).toEqual([]);
  });

  it('recovers when the connection of its first fetch is cut', async () => {
    const done: number[] = [];
    const short = job('test.short', async (_ctx, { n }) => {
      done.push(n);
    });
    const holder = await services.pool.connect();
    try {
      await holder.query('begin; lock table graphile_worker._private_tasks in access exclusive mode');
      await start([short], services, processes, { pollMs: 100 });
      await cutBlocked('the first fetch');
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    await enqueue(short, [0]);
    await until('the job to run', () => done.length > 0);
    expect(done).toEqual([0]);
  });

  it('recovers when the connection is cut that completes a long job', async () => {
    const stray = vi.fn();
    process.on('unhandledRejection', stray);
    const held = Promise.withResolvers<void>();
    const done: number[] = [];
    const long = job(
      'test.long',
      async (_ctx, { n }) => {
        done.push(n);
        await held.promise;
      },
      { long: true },
    );
    const runner = await start([long]);
    await enqueue(long, [1]);
    await until('the job to run', () => done.length === 1);
    const holder = await services.pool.connect();
    try {
      await holder.query('begin; select from graphile_worker._private_jobs for update');
      held.resolve();
      await cutBlocked('its completion');
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    await enqueue(long, [2]);
    await until('the next job to run', () => done.includes(2));
    await runner.drain();
    process.off('unhandledRejection', stray);
    expect(stray).not.toHaveBeenCalled();
  });

  it('leaves no workers behind if it pauses and goes on while it starts new ones', async () => {
    const guards: Guarded[] = [];
    const guard = (guarded: Guarded) => {
      guards.push(guarded);
      return () => undefined;
    };
    const done: number[] = [];
    const held = Promise.withResolvers<void>();
    const short = job('test.short', async (_ctx, { n }) => {
      done.push(n);
      await held.promise;
    });
    const runner = await start([short], services, { ...processes, guard });
    const connections = async (statement = '') => {
      const { rows } = await services.pool.query<{ pid: number; waits: boolean }>(
        `select pid, wait_event_type = 'Lock' as waits from pg_stat_activity
         where datname = current_database() and application_name = 'millrace jobs' and position($1 in query) > 0`,
        [statement],
      );
      return rows;
    };
    const untilWaiting = (count: number, statement: string) =>
      until(`${count} statements to wait that contain ${statement}`, async () => {
        const waiting = (await connections(statement)).filter(({ waits }) => waits);
        return waiting.length === count && waiting;
      });
    const holder = await services.pool.connect();
    try {
      await holder.query('begin; lock table graphile_worker.migrations in access exclusive mode; savepoint rows');
      await enqueue(short, [1]);
      await until('the job to be fetched', async () => {
        // Completing the job waits for this lock. Workers shut down if its connection is lost.
        const { rows } = await holder.query(
          'select from graphile_worker._private_jobs where locked_at is not null for update',
        );
        return rows.length > 0;
      });
      held.resolve();
      for (const { pid } of await untilWaiting(1, 'delete'))
        await holder.query('select pg_terminate_backend($1)', [pid]);
      await holder.query('rollback to rows');
      await untilWaiting(1, 'migrations');
      for (const guarded of guards) await guarded.pause();
      const resumed = Promise.all(guards.map((guarded) => guarded.resume()));
      await untilWaiting(2, 'migrations');
      await holder.query('rollback');
      await resumed;
    } finally {
      holder.release();
    }
    await runner.drain();
    expect(new Set(done)).toEqual(new Set([1]));
    await runner.stop();
    running.length = 0;
    await until('all workers to be gone', async () => (await connections()).length === 0);
  });
});
