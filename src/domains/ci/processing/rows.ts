import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { jobCreated, type jobUpdated } from '../events.ts';
import { eventScope, jobPayload, type PayloadJob } from '../payloads.ts';
import { type CurrentJob, currentJobs, type LockedPipeline } from '../processing.ts';

// Changes of job rows that commands and transitions share. The caller holds the lock of the pipeline, and processes it
// afterwards.

/** Statuses from which a job can be canceled. A manual job waits for a person, and stays. */
export const CANCELABLE = [
  'created',
  'waiting_for_resource',
  'preparing',
  'waiting_for_callback',
  'pending',
  'running',
  'scheduled',
] as const;

/**
 * Cancels those of the jobs that can be. A running job whose runner can stop gracefully becomes `canceling` until the
 * runner reports its end, unless `force` is set. Returns the ids of the jobs that changed.
 */
export const cancelRows = async (
  tx: Tx,
  pipeline: LockedPipeline,
  jobIds: readonly number[] | 'all',
  { force = false } = {},
): Promise<number[]> => {
  const { rows } = await sql<{ id: number }>`
    update jobs set
      status = case when target.gracefully then 'canceling' else 'canceled' end,
      finished_at = case when target.gracefully then null else now() end,
      token_digest = case when target.gracefully then jobs.token_digest end,
      ended_token_digest = case when not target.gracefully then jobs.token_digest end,
      scheduled_at = null, updated_at = now()
    from (
      select j.id, not ${force} and j.status = 'running'
        and coalesce((manager.features ->> 'cancel_gracefully')::boolean, false) as gracefully
      from jobs j left join runner_managers manager on manager.id = j.runner_manager_id
      where j.pipeline_id = ${pipeline.id} and not j.retried and j.kind <> 'generic_commit_status'
        and (j.status = any (${CANCELABLE}::text[]) or (${force} and j.status = 'canceling'))
        and ${jobIds === 'all' ? sql`true` : sql`j.id = any (${jobIds}::bigint[])`}
      order by j.id
    ) as target
    where jobs.id = target.id
    returning jobs.id`.execute(tx.db);
  return rows.map(({ id }) => id);
};

/**
 * Adds a new row for each of these jobs, `created` and with the same needs, and marks the old ones as retried. The
 * manual variables of the old jobs stay unless `keepVariables` is false. `userId` is the person who runs them again, or
 * null for automatic retries. Emits the events of the new jobs, and returns their ids by the old ones.
 */
export const replaceRows = async (
  tx: Tx,
  pipeline: LockedPipeline,
  jobIds: readonly number[],
  { userId, keepVariables = true }: { readonly userId: number | null; readonly keepVariables?: boolean },
): Promise<Map<number, number>> => {
  const copied = sql.raw(
    `project_id, pipeline_id, stage_id, kind, name, stage_idx, ref, tag, protected, scheduling_type, options,
     yaml_variables, environment, run_when, tags, interruptible, resource_group_id`,
  );
  await sql`update jobs set retried = true, updated_at = now() where id = any (${jobIds}::bigint[])`.execute(tx.db);
  const { rows } = await sql<{ id: number; name: string; pipeline_id: number }>`
    insert into jobs (${copied}, allow_failure, user_id, retried_by_user)
    select ${copied}, coalesce((options ->> 'allow_failure')::boolean, allow_failure),
      coalesce(${userId}::bigint, user_id), retried_by_user or ${userId !== null}
    from jobs where id = any (${jobIds}::bigint[]) order by id
    returning id, name, pipeline_id`.execute(tx.db);
  const old = await tx.db
    .selectFrom('jobs')
    .select(['id', 'name'])
    .where(sql<boolean>`id = any (${jobIds}::bigint[])`)
    .execute();
  const newIds = new Map(rows.map(({ name, id }) => [name, id]));
  const pairs = old.flatMap(({ id, name }) => {
    const next = newIds.get(name);
    return next === undefined ? [] : [[id, next] as const];
  });
  const pair = sql`unnest(${pairs.map(([id]) => id)}::bigint[], ${pairs.map(([, id]) => id)}::bigint[])`;
  await sql`
    insert into job_needs (job_id, name, artifacts, optional)
    select pair.fresh, needs.name, needs.artifacts, needs.optional
    from ${pair} as pair (old, fresh) join job_needs needs on needs.job_id = pair.old`.execute(tx.db);
  if (keepVariables) {
    await sql`
      insert into job_variables (job_id, key, sealed_value, source)
      select pair.fresh, variables.key, variables.sealed_value, 'manual'
      from ${pair} as pair (old, fresh)
      join job_variables variables on variables.job_id = pair.old and variables.source = 'manual'`.execute(tx.db);
  }
  await emitRows(
    tx,
    pipeline,
    jobCreated,
    pairs.map(([, id]) => id),
  );
  return new Map(pairs);
};

/** Emits an event for each of the jobs as they are now. Events of current jobs are the task of `processPipeline`. */
export const emitRows = async (
  tx: Tx,
  pipeline: LockedPipeline,
  event: typeof jobCreated | typeof jobUpdated,
  jobIds: readonly number[],
): Promise<void> => {
  const { rows } = await sql<PayloadJob>`
    select jobs.*, stages.name as stage from jobs left join stages on stages.id = jobs.stage_id
    where jobs.id = any (${jobIds}::bigint[]) order by jobs.id`.execute(tx.db);
  for (const job of rows) {
    tx.emit(event, {
      ...eventScope(pipeline),
      subject: { type: 'Ci::Build', id: job.id },
      payload: jobPayload(job),
    });
  }
};

/** Returns the newest jobs of the pipeline without reported statuses. */
export const ownJobs = async (tx: Tx, pipeline: LockedPipeline): Promise<CurrentJob[]> =>
  (await currentJobs(tx, pipeline.id)).filter(({ kind }) => kind !== 'generic_commit_status');
