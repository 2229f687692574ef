import { hostname } from 'node:os';
import pg from 'pg';
import type { Services } from '../context.ts';
import { connectionStringOf, tolerateLosses } from '../db/pool.ts';
import { type FreedJob, freeJobsOfProcess, freeOrphanedJobs } from '../job-runner/locks.ts';

/** Work that must pause while the other processes consider this process dead. */
export interface Guarded {
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** The processes of the hub. Each one has a row that it keeps fresh, and sees the others by their rows. */
export interface Processes {
  /** Returns the processes that missed their heartbeats and are not cleaned up yet. */
  deadProcesses(): Promise<string[]>;
  /**
   * Registers a function that frees the leases of a dead process. Several processes may call it for the same dead
   * process, and it is called again after an error, so it must be idempotent.
   */
  onProcessDead(free: (processId: string) => Promise<void>): void;
  /** Registers work to pause. Returns a function that unregisters it. */
  guard(guarded: Guarded): () => void;
  /** Ends the heartbeat and removes the row. Must be called last, when nothing is leased any more. */
  stop(): Promise<void>;
}

export interface ProcessesOptions {
  readonly services: Services;
  readonly heartbeatMs?: number;
  readonly deadAfterMs?: number;
}

const HEARTBEAT_MS = 2_500;
const DEAD_AFTER_MS = 12_000;
/** The number of heartbeats between checks for jobs locked by unknown processes. */
const ORPHANS_EVERY = 8;

/** Registers this process and starts to watch the others. All times are those of the database. */
export const startProcesses = async (options: ProcessesOptions): Promise<Processes> => {
  const registry = new Registry(options);
  await registry.start();
  return registry;
};

/** Throws if no process with the role `all` or `worker` had a recent heartbeat, neither this one nor another. */
export const requireWorker = async ({ pool }: Pick<Services, 'pool'>): Promise<void> => {
  const { rowCount } = await pool.query(
    `select from hub_processes where role <> 'web' and seen_at > now() - make_interval(secs => $1) limit 1`,
    [DEAD_AFTER_MS / 1_000],
  );
  if (rowCount === 0) throw new Error('no worker process of the hub is alive');
};

/** A process of the hub. */
export interface ProcessRow {
  readonly id: string;
  readonly role: string;
  readonly hostname: string;
  readonly started_at: string;
  /** Time since its last heartbeat. */
  readonly seen_seconds: number;
  /** False if it missed its heartbeats, and was not cleaned up yet. */
  readonly alive: boolean;
}

/** Returns the registered processes, oldest first. */
export const listProcesses = async ({ pool }: Pick<Services, 'pool'>): Promise<ProcessRow[]> => {
  const { rows } = await pool.query<ProcessRow>(
    `select id, role, hostname, started_at, extract(epoch from now() - seen_at)::int as seen_seconds,
       seen_at > now() - make_interval(secs => $1) as alive
     from hub_processes order by started_at, id`,
    [DEAD_AFTER_MS / 1_000],
  );
  return rows;
};

class Registry implements Processes {
  readonly #services: Services;
  readonly #pool: pg.Pool;
  readonly #heartbeatMs: number;
  readonly #deadAfterSeconds: number;
  readonly #frees: ((processId: string) => Promise<void>)[] = [];
  readonly #guards = new Set<Guarded>();
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();
  #beats = 0;
  /** Whether guarded work must still be paused and resumed, because this process was considered dead. */
  #mustRejoin = false;
  #stopped = false;

  constructor({ services, heartbeatMs = HEARTBEAT_MS, deadAfterMs = DEAD_AFTER_MS }: ProcessesOptions) {
    this.#services = services;
    this.#heartbeatMs = heartbeatMs;
    this.#deadAfterSeconds = deadAfterMs / 1_000;
    // A separate connection, because a busy pool must not make this process look dead.
    this.#pool = tolerateLosses(
      new pg.Pool({
        connectionString: connectionStringOf(services.pool),
        max: 1,
        application_name: 'millrace heartbeat',
        connectionTimeoutMillis: 5_000,
        query_timeout: 10_000,
      }),
      (error) => services.log.warn({ err: error }, 'lost the heartbeat connection'),
    );
  }

  async start(): Promise<void> {
    await this.#register();
    this.#schedule();
  }

  async deadProcesses(): Promise<string[]> {
    const { rows } = await this.#pool.query<{ id: string }>(
      'select id from hub_processes where seen_at < now() - make_interval(secs => $1)',
      [this.#deadAfterSeconds],
    );
    return rows.map((row) => row.id);
  }

  onProcessDead(free: (processId: string) => Promise<void>): void {
    this.#frees.push(free);
  }

  guard(guarded: Guarded): () => void {
    this.#guards.add(guarded);
    return () => this.#guards.delete(guarded);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#beating;
    try {
      await this.#pool.query('delete from hub_processes where id = $1', [this.#services.processId]);
    } catch (error) {
      // The other processes will find it dead.
      this.#services.log.warn({ err: error }, 'this process could not remove its registration');
    }
    await this.#pool.end();
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
        .catch((error: unknown) => this.#services.log.warn({ err: error }, 'heartbeat failed; retrying'))
        .finally(() => this.#schedule());
    }, this.#heartbeatMs);
    this.#timer.unref();
  }

  async #beat(): Promise<void> {
    // If the row is too old, this process counts as dead: others may already be freeing its leases.
    const { rowCount } = await this.#pool.query(
      'update hub_processes set seen_at = now() where id = $1 and seen_at > now() - make_interval(secs => $2)',
      [this.#services.processId, this.#deadAfterSeconds],
    );
    if (rowCount === 0) {
      this.#services.log.error('other processes considered this process dead; stopping its jobs and registering again');
      this.#mustRejoin = true;
    }
    // If it fails half-way, because a connection is lost meanwhile, the next beat repeats it.
    if (this.#mustRejoin) await this.#rejoin();
    for (const id of await this.deadProcesses()) await this.#bury(id);
    if (this.#beats++ % ORPHANS_EVERY === 0) this.#report(await freeOrphanedJobs(this.#pool), null);
  }

  async #register(): Promise<void> {
    await this.#pool.query(
      `insert into hub_processes (id, role, hostname) values ($1, $2, $3)
       on conflict (id) do update set seen_at = now(), started_at = now()`,
      [this.#services.processId, this.#services.config.role, hostname()],
    );
  }

  async #rejoin(): Promise<void> {
    const guards = [...this.#guards];
    await allEnded(guards.map((guarded) => guarded.pause()));
    await this.#register();
    if (this.#stopped) return;
    await allEnded(guards.filter((guarded) => this.#guards.has(guarded)).map((guarded) => guarded.resume()));
    this.#mustRejoin = false;
  }

  /**
   * Frees the leases of a dead process. Its row stays until all are freed, so any process retries failures with its
   * next heartbeat.
   */
  async #bury(id: string): Promise<void> {
    this.#services.log.warn({ dead_process: id }, 'a process of the hub died');
    this.#report(await freeJobsOfProcess(this.#pool, id), id);
    const freed = await Promise.allSettled(this.#frees.map((free) => free(id)));
    const failures = freed.filter((result) => result.status === 'rejected');
    for (const { reason } of failures)
      this.#services.log.error({ err: reason, dead_process: id }, 'could not free leases of a dead process; retrying');
    if (failures.length > 0) return;
    await this.#pool.query('delete from hub_processes where id = $1 and seen_at < now() - make_interval(secs => $2)', [
      id,
      this.#deadAfterSeconds,
    ]);
  }

  #report(jobs: readonly FreedJob[], processId: string | null): void {
    for (const job of jobs)
      this.#services.log[job.gave_up ? 'error' : 'warn'](
        { job: job.name, job_id: job.id, crashes: job.crashes, dead_process: processId },
        job.gave_up ? 'gave up a job: processes kept dying while they ran it' : 'freed a job of a dead process',
      );
  }
}

/** Waits until all have ended. @throws the first failure */
const allEnded = async (works: readonly Promise<void>[]): Promise<void> => {
  const failure = (await Promise.allSettled(works)).find((result) => result.status === 'rejected');
  if (failure) throw failure.reason;
};
