import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Logger as GraphileLogger,
  type Job,
  type ParsedCronItem,
  type Runner,
  run,
  type TaskList,
  type WorkerEventMap,
  type WorkerPool,
} from 'graphile-worker';
import type { Pool, PoolClient } from 'pg';
import { type Services, systemActor } from '../context.ts';
import type { CreateContext } from '../create-context.ts';
import { isDatabaseAway } from '../db/failures.ts';
import { type AnyJobDefinition, FinalJobError, type JobRun } from '../jobs.ts';
import type { Logger } from '../log.ts';
import { HeldJobs } from './held-jobs.ts';
import { failForGood, isHeld, lockOwner, returnJobs } from './locks.ts';
import { finishedJobs, jobDuration } from './metrics.ts';

export interface LaneOptions {
  readonly name: string;
  readonly services: Services;
  readonly createContext: CreateContext;
  readonly pool: Pool;
  readonly jobs: readonly AnyJobDefinition[];
  readonly crons: ParsedCronItem[];
  readonly concurrency: number;
  /**
   * Fetches jobs in batches. For short jobs this gives twelve times the rate. Unsuitable for long jobs, which would be
   * fetched and then wait.
   */
  readonly batched: boolean;
  /** Called when a job has ended, whatever its outcome. The statement that records it may still run. */
  readonly onEnded: () => void;
  /** How often to look for jobs without a notification. */
  readonly pollMs?: number;
  /** How often to look for jobs whose fetch was lost. */
  readonly reconcileMs?: number;
}

const POLL_MS = 2_000;
const ABORT_AFTER_MS = 1_500;
const GIVE_UP_AFTER_MS = 4_500;
const MAX_RESTART_DELAY_MS = 5_000;
const RECONCILE_MS = 5_000;
/** Fetched jobs that wait longer than POLL_MS are returned, so a job locked for this long has started or is lost. */
const LOST_AFTER_MS = 10_000;
const COMPLETED_WITHIN_MS = 5_000;
/** Workers that failed to fetch jobs this many times in a row are replaced. */
const MAX_FAILED_FETCHES = 5;
/** A job that finds the database away loses no attempt, unless this happens so often that the job may be the cause. */
const MAX_RETURNS = 50;
const FIRST_RETURN_MS = 500;
const LAST_RETURN_MS = 10_000;

interface Workers {
  readonly owner: string;
  readonly abort: AbortController;
  readonly runner: Runner;
  /** Returns true if they have failed to fetch jobs for so long that they may never succeed. */
  isStuck(): boolean;
  /** Drops references to the options of these workers. */
  release(): void;
}

/**
 * A set of workers for one kind of job. graphile-worker shuts down if it cannot reach the database for a while. The
 * lane then starts new workers under a new name, and returns remaining jobs of the old workers when these have ended.
 */
export class Lane {
  readonly #options: LaneOptions;
  readonly #log: Logger;
  #workers: Workers | null = null;
  #number = 0;
  /** The time from a start to the next stop, or null while stopped. What began in an earlier one must end. */
  #period: symbol | null = null;
  /** The period in which workers are being started. Two starts at once would leave workers that nothing stops. */
  #starting: symbol | null = null;
  #reconciliation: NodeJS.Timeout | undefined;
  /** The jobs whose handlers run in this lane, in any generation of workers. */
  readonly #held = new HeldJobs();

  constructor(options: LaneOptions) {
    this.#options = options;
    this.#log = options.services.log.child({ lane: options.name });
  }

  async start(): Promise<void> {
    const period = Symbol();
    this.#period = period;
    this.#starting = period;
    // Returns jobs that earlier workers of this process could not return.
    await returnJobs(this.#options.pool, { owner: lockOwner(this.#options.services.processId, this.#options.name) });
    await this.#startWorkers(period);
    this.#reconcileLater(period);
    if (this.#workers) this.#started(period);
    else void this.#restart(period);
  }

  /** Takes no more jobs, aborts running ones, and returns the rest. Takes at most seven seconds. */
  async stop({ abortAfterMs = ABORT_AFTER_MS } = {}): Promise<void> {
    this.#period = null;
    clearTimeout(this.#reconciliation);
    const workers = this.#workers;
    this.#workers = null;
    if (!workers) return;
    const stopped = workers.runner.stop().catch((error: unknown) => {
      this.#log.warn({ err: error }, 'workers did not stop cleanly');
    });
    await Promise.race([stopped, sleep(abortAfterMs)]);
    workers.abort.abort(new Error('the hub is stopping'));
    await Promise.race([stopped, sleep(GIVE_UP_AFTER_MS)]);
    const returned = await returnJobs(this.#options.pool, { owner: workers.owner });
    if (returned > 0) this.#log.warn({ jobs: returned }, 'returned jobs that did not stop');
  }

  /** Starts workers. There are none afterwards if they have shut down meanwhile, because a connection was lost. */
  async #startWorkers(period: symbol): Promise<void> {
    const { services, pool, concurrency, batched, crons } = this.#options;
    this.#number++;
    const owner = lockOwner(services.processId, this.#options.name, this.#number);
    const abort = new AbortController();
    const events = new EventEmitter();
    // Sets the name under which these workers lock their jobs, before they fetch the first job.
    events.once('pool:create', ({ workerPool }: { workerPool: WorkerPool }) => {
      workerPool.id = owner;
    });
    events.once('localQueue:init', ({ localQueue }: WorkerEventMap['localQueue:init']) => {
      events.once('pool:gracefulShutdown', () => void this.#returnFetched(localQueue, owner));
    });
    const isStuck = this.#watchFetches(events);
    let hasShutDown = false;
    events.once('pool:gracefulShutdown', () => {
      hasShutDown = true;
      this.#lost(owner);
    });
    events.on('job:complete', this.#options.onEnded);
    const listening = whenListening(events, concurrency);
    const taskList = this.#tasks(owner, abort.signal);
    const runner = await run({
      pgPool: pool,
      noHandleSignals: true,
      concurrency,
      pollInterval: this.#options.pollMs ?? POLL_MS,
      events,
      logger: graphileLogger(this.#log),
      taskList,
      parsedCronItems: crons,
      preset: {
        worker: {
          // Without batches, graphile-worker 0.18 does not wait for these statements, nor catch their failures.
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          ...(batched ? { localQueue: { size: concurrency * 4, ttl: POLL_MS } } : {}),
        },
      },
    });
    const release = () => {
      events.removeAllListeners();
      for (const name of Object.keys(taskList)) delete taskList[name];
    };
    const workers = { owner, abort, runner, isStuck, release };
    runner.promise
      .catch((error: unknown) => this.#log.warn({ err: error }, 'workers ended with an error'))
      .then(() => this.#ended(workers))
      .catch((error: unknown) => this.#log.error({ err: error }, 'could not return the jobs of ended workers'));
    if (this.#period !== period) return await runner.stop();
    // Their end may take long. New workers need not wait for it.
    if (hasShutDown) return;
    this.#workers = workers;
    await Promise.race([listening, sleep(POLL_MS)]);
  }

  /** The workers shut down by themselves. New ones replace them while the old ones finish. */
  #lost(owner: string): void {
    if (this.#period === null || this.#workers?.owner !== owner) return;
    this.#log.error('the workers shut down unexpectedly; starting new ones');
    this.#workers = null;
    // A start under way sees that these are gone, and starts others.
    if (this.#starting !== this.#period) void this.#restart(this.#period);
  }

  async #restart(period: symbol): Promise<void> {
    if (this.#period !== period) return;
    this.#starting = period;
    for (let delayMs = 100; this.#period === period && !this.#workers; delayMs = nextDelay(delayMs)) {
      await sleep(delayMs);
      if (this.#period !== period) return;
      await this.#startWorkers(period).catch((error: unknown) =>
        this.#log.error({ err: error }, 'could not start workers'),
      );
    }
    this.#started(period);
  }

  #started(period: symbol): void {
    if (this.#starting === period) this.#starting = null;
  }

  /**
   * Returns jobs that were fetched but not started. graphile-worker 0.18 fails to do this on shutdown: it refuses its
   * own statement. If the connection is lost as well, the failure is an unhandled rejection.
   */
  async #returnFetched(queue: WorkerEventMap['localQueue:init']['localQueue'], owner: string): Promise<void> {
    const ids: string[] = [];
    while (queue.mode === 'WAITING') {
      const job = queue.getJob(owner, null);
      if (job && 'id' in job) ids.push(job.id);
    }
    try {
      if (ids.length > 0) await returnJobs(this.#options.pool, { owner, only: ids });
    } catch (error) {
      this.#log.debug({ err: error }, 'could not return fetched jobs yet');
    }
  }

  /**
   * Returns a function that tells whether fetching has failed for long. graphile-worker 0.18 keeps the failure of the
   * first fetch of batched workers, and all later ones then fail.
   */
  #watchFetches(events: EventEmitter): () => boolean {
    let isFetching = false;
    let since = performance.now();
    const watch = (fetching: boolean) => {
      isFetching = fetching;
      since = performance.now();
    };
    events.on('localQueue:setMode', ({ newMode }: WorkerEventMap['localQueue:setMode']) =>
      watch(newMode === 'POLLING'),
    );
    events.on('localQueue:getJobs:complete', () => watch(isFetching));
    const limitMs = MAX_FAILED_FETCHES * (this.#options.pollMs ?? POLL_MS);
    return () => isFetching && performance.now() - since > limitMs;
  }

  /** Stops stuck workers. New ones then start, as for all that shut down. */
  #replaceStuck(): void {
    const workers = this.#workers;
    if (!workers?.isStuck()) return;
    this.#log.error('the workers cannot fetch jobs');
    workers.runner.stop().catch((error: unknown) => this.#log.warn({ err: error }, 'workers did not stop cleanly'));
  }

  async #ended({ owner, runner, release }: Workers): Promise<void> {
    // graphile-worker 0.18 keeps the options of all workers ever created, and everything that they reference.
    release();
    if (this.#workers?.runner === runner) this.#lost(owner);
    await returnJobs(this.#options.pool, { owner });
  }

  /**
   * Replaces stuck workers, and returns lost jobs. A connection may break between the statement that fetches jobs and
   * its response, so jobs may be locked for this lane without its knowledge. Jobs that were locked a while ago and do not
   * run here are returned.
   */
  #reconcileLater(period: symbol): void {
    if (this.#period !== period) return;
    this.#reconciliation = setTimeout(async () => {
      this.#replaceStuck();
      const owner = lockOwner(this.#options.services.processId, this.#options.name);
      try {
        const jobs = await returnJobs(this.#options.pool, {
          owner,
          lockedForMs: LOST_AFTER_MS,
          except: this.#held.ids(),
        });
        if (jobs > 0) this.#log.warn({ jobs }, 'returned jobs that were locked but never started');
      } catch (error) {
        this.#log.warn({ err: error }, 'could not look for lost jobs; retrying');
      }
      this.#reconcileLater(period);
    }, this.#options.reconcileMs ?? RECONCILE_MS);
    this.#reconciliation.unref();
  }

  #tasks(owner: string, signal: AbortSignal): TaskList {
    return Object.fromEntries(
      this.#options.jobs.map((definition) => [
        definition.name,
        (payload: unknown, { job }: { job: Job }) => this.#run(definition, payload, job, owner, signal),
      ]),
    );
  }

  async #run(
    definition: AnyJobDefinition,
    payload: unknown,
    job: Job,
    owner: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { services, createContext, pool } = this.#options;
    const run = { attempt: job.attempts, lastAttempt: job.attempts >= job.max_attempts };
    const log = services.log.child({ job: definition.name, job_id: job.id, attempt: run.attempt });
    const ctx = createContext({ actor: systemActor, requestId: `job-${job.id}-${run.attempt}`, signal, log });
    const startedAt = performance.now();
    const finish = (outcome: string) => {
      const durationMs = performance.now() - startedAt;
      finishedJobs.inc({ job: definition.name, outcome });
      jobDuration.observe({ job: definition.name }, durationMs / 1_000);
      // A long-running job stays listed until it is certainly completed. Shorter ones are too young for the check.
      this.#held.release(job.id, durationMs > COMPLETED_WITHIN_MS ? COMPLETED_WITHIN_MS : 0);
    };
    this.#held.take(job.id);
    try {
      await definition.run(ctx, withoutCron(payload), run);
      // Completing deletes a job even if another worker holds it. So a worker must not complete a job that was taken away.
      if (signal.aborted && !(await isHeld(pool, owner, job.id)))
        throw new Error('another worker has taken over the job');
      finish('done');
    } catch (error) {
      // Without a connection nothing can be recorded. The job is not held any more, so `#reconcileLater` returns it.
      finish(
        await this.#record(definition, job, run, { error, owner, signal, log }).catch((failure: unknown) => {
          log.warn({ err: failure }, 'could not record how a job ended');
          return 'failed';
        }),
      );
      throw error;
    }
  }

  /** Records a job that did not get to its end. Returns the outcome for the metrics. */
  async #record(
    definition: AnyJobDefinition,
    job: Job,
    { lastAttempt }: JobRun,
    { error, owner, signal, log }: { error: unknown; owner: string; signal: AbortSignal; log: Logger },
  ): Promise<string> {
    const { pool } = this.#options;
    if (signal.aborted) {
      await returnJobs(pool, { owner, only: [job.id] });
      log.info('job returned for a retry');
      return 'returned';
    }
    if (isDatabaseAway(error) && returnsOf(job, definition) < MAX_RETURNS) {
      const delayMs = Math.min(FIRST_RETURN_MS * 2 ** returnsOf(job, definition), LAST_RETURN_MS);
      await returnJobs(pool, { owner, only: [job.id], delayMs });
      log.warn({ err: error }, 'the database was away; job returned for a retry');
      return 'returned';
    }
    if (error instanceof FinalJobError) {
      await failForGood(pool, owner, job.id);
      log.error({ err: error }, 'job failed permanently');
      return 'given_up';
    }
    log[lastAttempt ? 'error' : 'warn']({ err: error }, lastAttempt ? 'job failed on its last attempt' : 'job failed');
    return lastAttempt ? 'given_up' : 'failed';
  }
}

/** How often the job was returned. Each time raises the number of its attempts. */
const returnsOf = (job: Job, { maxAttempts }: AnyJobDefinition): number => Math.max(0, job.max_attempts - maxAttempts);

const nextDelay = (delayMs: number): number => Math.min(delayMs * 2, MAX_RESTART_DELAY_MS);

/**
 * Resolves when the workers receive notifications of new jobs. Whenever listening starts, also after a lost connection,
 * the workers look for jobs added before. Otherwise these would wait for the poll.
 */
const whenListening = (events: EventEmitter, workers: number): Promise<void> =>
  new Promise((resolve) => {
    events.on('pool:listen:success', async ({ client, workerPool }: { client: PoolClient; workerPool: WorkerPool }) => {
      // LISTEN is sent right after this event, and a statement sent later on the same connection is answered later.
      await Promise.resolve();
      try {
        await client.query('select 1');
        workerPool.nudge(workers);
      } catch {
        // The connection is lost again, which its own handler reports, or the workers are stopping.
      }
      resolve();
    });
  });

/** A cron job gets `{}` as input. graphile-worker adds the due time, which is removed here. */
const withoutCron = (payload: unknown): unknown => {
  if (typeof payload !== 'object' || payload === null || !('_cron' in payload)) return payload;
  const { _cron, ...rest } = payload;
  return rest;
};

/**
 * Passes on only messages about the workers. graphile-worker's messages about single jobs duplicate ours and contain
 * payloads.
 */
const graphileLogger = (log: Logger): GraphileLogger =>
  new GraphileLogger(() => (level, message, meta) => {
    if (meta && 'job' in meta) return;
    if (level === 'error' || level === 'warning') log.warn(message);
    else log.debug(message);
  });
