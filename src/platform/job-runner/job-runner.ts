import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseCronItem } from 'graphile-worker';
import pg from 'pg';
import type { Services } from '../context.ts';
import type { CreateContext } from '../create-context.ts';
import { connectionStringOf, keepAlive, tolerateLosses } from '../db/pool.ts';
import type { AnyJobDefinition } from '../jobs.ts';
import type { Processes } from '../process/processes.ts';
import { Lane } from './lane.ts';

export interface JobRunnerOptions {
  readonly services: Services;
  readonly jobs: readonly AnyJobDefinition[];
  readonly createContext: CreateContext;
  /** The number of concurrent short jobs. Long and remote jobs have `longConcurrency` separate workers each. */
  readonly concurrency: number;
  readonly longConcurrency?: number;
  /** The most connections to the database. Each lane keeps one to listen, so there is at least one more than lanes. */
  readonly connections?: number;
  /** The registration of this process. If it is declared dead, its jobs stop before it registers again. */
  readonly processes: Processes;
  /** How often to look for jobs without a notification. */
  readonly pollMs?: number;
  /** How often to look for jobs that were locked but never started. */
  readonly reconcileMs?: number;
}

export interface JobRunner {
  /** Waits until no job is due or running, in any process. For tests. Throws after `timeoutMs`. */
  drain(timeoutMs?: number): Promise<void>;
  /** Stops within eight seconds. Running jobs are soon aborted and returned, and the next runner takes them. */
  stop(): Promise<void>;
}

/** Starts the workers of this process for jobs and cron. Leaves jobs that are not in the list to other processes. */
export const startJobRunner = async (options: JobRunnerOptions): Promise<JobRunner> => {
  const { services, jobs, concurrency, longConcurrency = 3, connections = 10, processes } = options;
  assertDistinct(jobs);
  const sorts = [
    { name: 'short', batched: true, concurrency, jobs: jobs.filter((job) => !job.long && !job.remote) },
    { name: 'long', batched: false, concurrency: longConcurrency, jobs: jobs.filter((job) => job.long) },
    { name: 'remote', batched: false, concurrency: longConcurrency, jobs: jobs.filter((job) => job.remote) },
  ].filter((sort) => sort.jobs.length > 0);
  const pool = createWorkerPool(services, Math.max(connections, sorts.length + 1));
  const endings = new EventEmitter();
  const lanes = sorts.map(
    (sort) =>
      new Lane({ ...options, ...sort, pool, crons: cronItems(sort.jobs), onEnded: () => endings.emit('ended') }),
  );
  for (const lane of lanes) await lane.start();
  const unguard = processes.guard({
    pause: async () => {
      await Promise.all(lanes.map((lane) => lane.stop({ abortAfterMs: 0 })));
    },
    resume: async () => {
      await Promise.all(lanes.map((lane) => lane.start()));
    },
  });
  const stop = async () => {
    unguard();
    await Promise.all(lanes.map((lane) => lane.stop()));
    // Limited, because a handler that does not stop may still hold a connection.
    await Promise.race([pool.end(), sleep(500)]);
  };
  let stopping: Promise<void> | undefined;
  return {
    drain: (timeoutMs = 60_000) => drain({ pool: services.pool, jobs, endings }, timeoutMs),
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
};

const assertDistinct = (jobs: readonly AnyJobDefinition[]): void => {
  const names = jobs.map((job) => job.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`two jobs are named ${twice}`);
};

/**
 * Creates a separate pool: graphile-worker expects Date objects, and must work while handlers use up the other pool.
 */
const createWorkerPool = ({ pool, log }: Services, max: number): pg.Pool => {
  const connectionString = connectionStringOf(pool);
  return tolerateLosses(
    new pg.Pool({
      connectionString,
      max,
      application_name: 'millrace jobs',
      connectionTimeoutMillis: 10_000,
      ...keepAlive,
    }),
    (error) => log.warn({ err: error }, 'lost a database connection of the job workers'),
  );
};

const cronItems = (jobs: readonly AnyJobDefinition[]) =>
  jobs.flatMap(({ name, cron, maxAttempts }) =>
    cron === undefined
      ? []
      : [
          parseCronItem({
            task: name,
            match: cron,
            identifier: name,
            options: { maxAttempts, jobKey: `cron:${name}` },
          }),
        ],
  );

/**
 * Counts jobs that are due or running, by name. Jobs that wait for further requests count as due: it starts them.
 */
const DUE = `
  with due as materialized (
    select jobs.id, tasks.identifier as name, jobs.locked_at is null and jobs.run_at > now() as shared
    from graphile_worker._private_jobs as jobs join graphile_worker._private_tasks as tasks on tasks.id = jobs.task_id
    where tasks.identifier = any($1) and (
      jobs.locked_at is not null or (jobs.run_at <= now() and jobs.attempts < jobs.max_attempts)
      or (tasks.identifier = any($2) and jobs.attempts = 0)
    )
  ), started as (
    select pg_notify('jobs:insert', '{"r":0,"count":' || count(*) || '}')
    from graphile_worker.reschedule_jobs(array(select id from due where shared), run_at => now())
    having count(*) > 0
  )
  select name, count(*)::int as count from due, (select count(*) from started) as runs_it group by name`;

/** How long to wait for a job of this process to end. Other processes do not tell when theirs do. */
const DRAIN_POLL_MS = 25;
/** A job ends a little earlier than the statement that deletes it. */
const DELETING_MS = 3;

interface Drained {
  readonly pool: pg.Pool;
  readonly jobs: readonly AnyJobDefinition[];
  /** Emits `ended` whenever a job of this process has ended. */
  readonly endings: EventEmitter;
}

/** Resolves when a job of this process ends, or when it is time to look for others. */
const nextEnding = (endings: EventEmitter): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => endings.emit('ended'), DRAIN_POLL_MS);
    endings.once('ended', () => {
      clearTimeout(timer);
      resolve();
    });
  });

const drain = async ({ pool, jobs, endings }: Drained, timeoutMs: number): Promise<void> => {
  const names = jobs.map((job) => job.name);
  const shared = jobs.filter((job) => job.sharedMs !== undefined).map((job) => job.name);
  for (const deadline = performance.now() + timeoutMs; ; await sleep(DELETING_MS)) {
    const ended = nextEnding(endings);
    const { rows } = await pool.query<{ name: string; count: number }>(DUE, [names, shared]);
    if (rows.length === 0) return;
    if (performance.now() > deadline)
      throw new Error(
        `jobs are still due after ${timeoutMs} ms: ${rows.map((row) => `${row.name} (${row.count})`).join(', ')}`,
      );
    await ended;
  }
};
