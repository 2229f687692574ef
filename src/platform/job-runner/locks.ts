import type { Pool } from 'pg';

/**
 * Returns the lock owner of a worker: `<process id>:<lane>:<number>;`. This prefix or a shorter one frees the jobs of a
 * dead process or of an ended generation of workers. graphile-worker itself frees such locks only after four hours.
 */
export const lockOwner = (processId: string, lane: string, number?: number): string =>
  number === undefined ? `${processId}:${lane}:` : `${processId}:${lane}:${number};`;

export interface FreedJob {
  readonly id: string;
  readonly name: string;
  readonly crashes: number;
  readonly gave_up: boolean;
}

/** Crashes up to this number cost no attempt, because most jobs did not cause them. After that the job is suspected. */
const FREE_CRASHES = 5;
const MAX_SMALLINT = 32_767;

/** Frees the jobs of a dead process at once. From the third crash on, adds a delay that grows up to 15 s. */
export const freeJobsOfProcess = (pool: Pool, processId: string): Promise<FreedJob[]> =>
  freeCrashed(pool, 'starts_with(locked_by, $1)', [`${processId}:`]);

/** Frees jobs locked by processes that are no longer registered. */
export const freeOrphanedJobs = (pool: Pool): Promise<FreedJob[]> =>
  freeCrashed(
    pool,
    `locked_by ~ '^[0-9a-f-]{36}:' and not exists (select from hub_processes where id::text = left(locked_by, 36))`,
    [],
  );

const freeCrashed = async (pool: Pool, condition: string, values: readonly string[]): Promise<FreedJob[]> => {
  const { rows } = await pool.query<FreedJob>(
    `with held as (
       select id from graphile_worker._private_jobs where ${condition} for update
     ), counted as (
       insert into job_crashes as c (job_id, crashes) select id, 1 from held
       on conflict (job_id) do update set crashes = c.crashes + 1
       returning job_id, crashes
     ), freed as (
       update graphile_worker._private_jobs as jobs set
         locked_by = null,
         locked_at = null,
         run_at = now() + least(15, greatest(0, crashes - 2) * 5) * interval '1 second',
         max_attempts = case when crashes <= ${FREE_CRASHES} then least(max_attempts + 1, ${MAX_SMALLINT}) else max_attempts end,
         last_error = 'The process that ran this job died.',
         updated_at = now()
       from counted where jobs.id = counted.job_id
       returning jobs.id, jobs.task_id, crashes, jobs.attempts >= jobs.max_attempts as gave_up
     )
     select freed.id, tasks.identifier as name, crashes, gave_up, ${WAKE_WORKERS}
     from freed join graphile_worker._private_tasks as tasks on tasks.id = freed.task_id`,
    [...values],
  );
  return rows;
};

const WAKE_WORKERS = `pg_notify('jobs:insert', json_build_object('count', count(*) over ())::text)`;

export interface ReturnOptions {
  /** A lock owner, or a common prefix of several. */
  readonly owner: string;
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  readonly lockedForMs?: number;
  /** When they can be fetched again. At once by default. */
  readonly delayMs?: number;
}

/** Returns jobs that workers hold but will not run, or not to their end. They lose no attempt. Returns their number. */
export const returnJobs = async (
  pool: Pool,
  { owner, only, except = [], lockedForMs = 0, delayMs = 0 }: ReturnOptions,
): Promise<number> => {
  const { rows } = await pool.query(
    `with returned as (
       update graphile_worker._private_jobs set
         locked_by = null, locked_at = null,
         run_at = case when $5::double precision > 0 then now() + make_interval(secs => $5) else least(run_at, now()) end,
         max_attempts = least(max_attempts + 1, ${MAX_SMALLINT}), updated_at = now()
       where starts_with(locked_by, $1) and ($2::bigint[] is null or id = any($2)) and id <> all($3::bigint[])
         and locked_at <= now() - make_interval(secs => $4)
       returning id
     )
     select id, ${WAKE_WORKERS} from returned`,
    [owner, only ?? null, except, lockedForMs / 1_000, delayMs / 1_000],
  );
  return rows.length;
};

/** Prevents further retries of a job that is about to fail. */
export const failForGood = async (pool: Pool, owner: string, jobId: string): Promise<void> => {
  await pool.query(
    'update graphile_worker._private_jobs set attempts = max_attempts, updated_at = now() where id = $1 and locked_by = $2',
    [jobId, owner],
  );
};

/** Returns true if the worker still holds the job. It does not if the job was freed as that of a dead process. */
export const isHeld = async (pool: Pool, owner: string, jobId: string): Promise<boolean> => {
  const { rows } = await pool.query('select from graphile_worker._private_jobs where id = $1 and locked_by = $2', [
    jobId,
    owner,
  ]);
  return rows.length > 0;
};
