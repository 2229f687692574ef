import { hostname } from 'node:os';
import pg from 'pg';
import type { Services } from './context.ts';
import { tolerateLosses } from './db/pool.ts';
import { type FreedJob, freeJobsOfProcess, freeOrphanedJobs } from './job-runner/locks.ts';

/** What must rest while this process is taken for dead by the others. */
export interface Guarded {
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** The processes of the hub, as each of them sees the others: by a row that its owner keeps fresh. */
export interface Processes {
  /** Those that were not seen for a while and are not yet buried. */
  deadProcesses(): Promise<string[]>;
  /**
   * Frees what the domain leased to a dead process. Several processes may call it for the same one, and again after an
   * error: it must be safe to repeat.
   */
  onProcessDead(free: (processId: string) => Promise<void>): void;
  /** Returns what ends it. */
  guard(guarded: Guarded): () => void;
  /** Ends the heartbeat and removes the row: to be called last, when nothing is leased any more. */
  stop(): Promise<void>;
}

export interface ProcessesOptions {
  readonly services: Services;
  readonly heartbeatMs?: number;
  readonly deadAfterMs?: number;
}

const HEARTBEAT_MS = 2_500;
const DEAD_AFTER_MS = 12_000;
/** Every so many heartbeats a look at jobs locked by processes that nobody knows. */
const ORPHANS_EVERY = 8;

/** Registers this process and begins to watch the others. All times are the database's. */
export const startProcesses = async (options: ProcessesOptions): Promise<Processes> => {
  const registry = new Registry(options);
  await registry.start();
  return registry;
};

/** Throws when no process that works (role `all` or `worker`) was seen lately, this one or another. */
export const requireWorker = async ({ pool }: Pick<Services, 'pool'>): Promise<void> => {
  const { rowCount } = await pool.query(
    `select from hub_processes where role <> 'web' and seen_at > now() - make_interval(secs => $1) limit 1`,
    [DEAD_AFTER_MS / 1_000],
  );
  if (rowCount === 0) throw new Error('no process of the hub is working');
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
  #stopped = false;

  constructor({ services, heartbeatMs = HEARTBEAT_MS, deadAfterMs = DEAD_AFTER_MS }: ProcessesOptions) {
    this.#services = services;
    this.#heartbeatMs = heartbeatMs;
    this.#deadAfterSeconds = deadAfterMs / 1_000;
    // One connection of its own: a busy pool must not make this process look dead.
    const { connectionString } = services.pool.options;
    if (connectionString === undefined) throw new Error('the pool was made without a connection string');
    this.#pool = tolerateLosses(
      new pg.Pool({
        connectionString,
        max: 1,
        application_name: 'millrace heartbeat',
        connectionTimeoutMillis: 5_000,
        query_timeout: 10_000,
      }),
      (error) => services.log.warn({ err: error }, 'the heartbeat connection was lost'),
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
      // The others will find out.
      this.#services.log.warn({ err: error }, 'this process could not sign off');
    }
    await this.#pool.end();
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
        .catch((error: unknown) => this.#services.log.warn({ err: error }, 'heartbeat failed; trying again'))
        .finally(() => this.#schedule());
    }, this.#heartbeatMs);
    this.#timer.unref();
  }

  async #beat(): Promise<void> {
    // A row that had become too old counts as gone: the others may have freed what this process held, or be about to.
    const { rowCount } = await this.#pool.query(
      'update hub_processes set seen_at = now() where id = $1 and seen_at > now() - make_interval(secs => $2)',
      [this.#services.processId, this.#deadAfterSeconds],
    );
    if (rowCount === 0) await this.#rejoin();
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
    this.#services.log.error('this process was taken for dead: its jobs are stopped, and it registers anew');
    const guards = [...this.#guards];
    await Promise.all(guards.map((guarded) => guarded.pause()));
    await this.#register();
    if (this.#stopped) return;
    await Promise.all(guards.filter((guarded) => this.#guards.has(guarded)).map((guarded) => guarded.resume()));
  }

  /** Its row stays until all is freed: what fails is tried again with the next heartbeat, here or elsewhere. */
  async #bury(id: string): Promise<void> {
    this.#services.log.warn({ dead_process: id }, 'a process of the hub died');
    this.#report(await freeJobsOfProcess(this.#pool, id), id);
    const freed = await Promise.allSettled(this.#frees.map((free) => free(id)));
    const failures = freed.filter((result) => result.status === 'rejected');
    for (const { reason } of failures)
      this.#services.log.error(
        { err: reason, dead_process: id },
        'leases of a dead process could not be freed; trying again',
      );
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
        job.gave_up
          ? 'a job was given up: processes kept dying while they ran it'
          : 'a job of a dead process was freed',
      );
  }
}
