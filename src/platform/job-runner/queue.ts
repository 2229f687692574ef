import { sql } from 'kysely';
import type { Database } from '../db/pool.ts';
import type { JobDefinition } from '../jobs.ts';

/** The jobs of one name that are not done. */
export interface QueuedJobs {
  readonly name: string;
  /** Those that a worker holds. It may hold some more than it runs. */
  readonly running: number;
  /** Due, and held by no worker. */
  readonly waiting: number;
  /** Due later: scheduled, or to be retried. */
  readonly later: number;
  /** Failed as often as they may. They are kept for thirty days. */
  readonly given_up: number;
  /** Why one of them failed last. */
  readonly last_error: string | null;
}

/** Returns the jobs of each name, in the order of the names. Names without jobs are left out. */
export const listQueuedJobs = async (db: Database): Promise<QueuedJobs[]> => {
  const { rows } = await sql<QueuedJobs>`
    select tasks.identifier as name,
      count(*) filter (where locked_at is not null)::int as running,
      count(*) filter (where locked_at is null and attempts < max_attempts and run_at <= now())::int as waiting,
      count(*) filter (where locked_at is null and attempts < max_attempts and run_at > now())::int as later,
      count(*) filter (where locked_at is null and attempts >= max_attempts)::int as given_up,
      (
        select last_error from graphile_worker._private_jobs as failed
        where failed.task_id = tasks.id and last_error is not null order by updated_at desc limit 1
      ) as last_error
    from graphile_worker._private_jobs as jobs join graphile_worker._private_tasks as tasks on tasks.id = jobs.task_id
    group by tasks.id, tasks.identifier order by 1`.execute(db);
  return rows;
};

/** Returns the inputs of the jobs that wait or run and whose input has these values. */
export const findQueuedInputs = async <I>(
  db: Database,
  job: JobDefinition<I>,
  values: Readonly<Partial<I>>,
): Promise<readonly I[]> => {
  const { rows } = await sql<{ payload: unknown }>`
    select payload from graphile_worker._private_jobs
    where task_id = (select id from graphile_worker._private_tasks where identifier = ${job.name})
      and attempts < max_attempts and payload::jsonb @> ${JSON.stringify(values)}::jsonb
    order by id`.execute(db);
  return rows.map(({ payload }) => job.input.parse(payload));
};

/** Returns the input of the job that waits or runs with this key. Null if there is none, or if it was given up. */
export const findQueuedInput = async <I>(db: Database, job: JobDefinition<I>, key: string): Promise<I | null> => {
  const { rows } = await sql<{ payload: unknown }>`
    select payload from graphile_worker._private_jobs
    where key = ${key} and attempts < max_attempts`.execute(db);
  return rows[0] === undefined ? null : job.input.parse(rows[0].payload);
};
