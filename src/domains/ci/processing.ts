import { type Selectable, sql } from 'kysely';
import { z } from 'zod';
import type { Tx } from '#platform/context.ts';
import type { Pipelines } from '#platform/db/tables.ts';
import { defineJob } from '#platform/jobs.ts';
import { jobUpdated, pipelineCreated, pipelineUpdated } from './events.ts';
import { type CiStatus, isComplete, runningSeconds, statusOf } from './model.ts';
import {
  type EventScopeColumns,
  eventScope,
  jobPayload,
  type PayloadJob,
  pipelinePayload,
  SCOPE_COLUMNS,
} from './payloads.ts';
import { nextSteps, type ProgressPart, type Step } from './processing/progress.ts';
import { statusOfJobs } from './processing/status.ts';

// Everything that moves a job or a pipeline ends in `processPipeline`, under the lock of the pipeline. Locks are taken
// in one order: the pipeline, then its jobs. No transaction locks two pipelines; what follows in another pipeline is a
// job of the hub (followers.ts).

/** A pipeline whose row is locked until the end of the transaction. */
export interface LockedPipeline extends Selectable<Pipelines>, Omit<EventScopeColumns, 'project_id'> {
  readonly project_path: string;
  readonly disk_path: string;
}

/** Locks the pipeline until the end of the transaction. Lock it before any of its jobs. Null if it is gone. */
export const lockPipeline = async (tx: Tx, id: number): Promise<LockedPipeline | null> => {
  const { rows } = await sql<LockedPipeline>`
    select pipelines.*, p.full_path as project_path, p.disk_path, ${SCOPE_COLUMNS}
    from pipelines join projects p on p.id = pipelines.project_id join namespaces n on n.id = p.namespace_id
    where pipelines.id = ${id} for no key update of pipelines`.execute(tx.db);
  return rows[0] ?? null;
};

/** Locks the pipeline of the job. Null if the job is gone. */
export const lockPipelineOf = async (tx: Tx, jobId: number): Promise<LockedPipeline | null> => {
  const job = await tx.db.selectFrom('jobs').select('pipeline_id').where('id', '=', jobId).executeTakeFirst();
  return job ? lockPipeline(tx, job.pipeline_id) : null;
};

/** A job of a pipeline that is being processed. */
export interface CurrentJob extends ProgressPart, Omit<PayloadJob, 'status'> {
  readonly stage_id: number | null;
  readonly interruptible: boolean;
  readonly runner_manager_id: number | null;
}

/** Returns the newest job of each name, reported statuses included, in the order of the file. */
export const currentJobs = async (tx: Pick<Tx, 'db'>, pipelineId: number): Promise<CurrentJob[]> => {
  const { rows } = await sql<CurrentJob>`
    select jobs.id, jobs.pipeline_id, jobs.kind, jobs.name, jobs.status, jobs.allow_failure, jobs.run_when,
      coalesce(jobs.stage_idx, 0) as stage_idx, jobs.stage_id, stages.name as stage, jobs.resource_group_id, jobs.ref,
      jobs.tag, jobs.tags, jobs.protected, jobs.interruptible, jobs.failure_reason, jobs.environment, jobs.coverage, jobs.user_id, jobs.runner_id,
      jobs.runner_manager_id, jobs.created_at, jobs.queued_at, jobs.started_at, jobs.finished_at,
      case when jobs.scheduling_type = 'dag'
        then array(select needs.name from job_needs needs where needs.job_id = jobs.id) end as needs
    from jobs left join stages on stages.id = jobs.stage_id
    where jobs.pipeline_id = ${pipelineId} and not jobs.retried
    order by jobs.id`.execute(tx.db);
  return rows;
};

export interface Processing {
  /** Jobs whose status this transaction has already changed. Each gets its event. */
  readonly changed?: Iterable<number>;
  /** Manual and delayed jobs that start as soon as their turn comes. */
  readonly immediately?: ReadonlySet<number>;
  /** The transaction has created the pipeline: its event is `pipeline.created`. */
  readonly isNew?: boolean;
  /** The current jobs, if this transaction has just read them. */
  readonly jobs?: readonly CurrentJob[];
}

/**
 * Moves every job of the pipeline whose turn has come, and recomputes the status of its stages and its own. Emits an
 * event for each job that moved, and for the pipeline if its status changed. Returns the status of the pipeline.
 */
export const processPipeline = async (
  tx: Tx,
  pipeline: LockedPipeline,
  { changed = [], immediately, isNew = false, jobs: known }: Processing = {},
): Promise<CiStatus> => {
  let jobs = known ?? (await currentJobs(tx, pipeline.id));
  const steps = nextSteps(
    jobs.filter(({ kind }) => kind !== 'generic_commit_status'),
    immediately,
  );
  if (steps.size > 0) {
    const moved = await takeSteps(tx, steps);
    jobs = jobs.map((job) => ({ ...job, ...moved.get(job.id) }));
  }
  emitJobs(tx, pipeline, jobs, new Set([...changed, ...steps.keys()]));
  await refreshStages(tx, pipeline.id, jobs);
  return refreshPipeline(tx, pipeline, jobs, isNew);
};

/** Emits `job.updated` for the jobs with these ids. It wakes the runners that wait for a job. */
const emitJobs = (tx: Tx, pipeline: LockedPipeline, jobs: readonly CurrentJob[], ids: ReadonlySet<number>): void => {
  const moved = jobs.filter(({ id, kind }) => ids.has(id) && kind !== 'generic_commit_status');
  for (const job of moved) {
    tx.emit(jobUpdated, {
      ...eventScope(pipeline),
      subject: { type: 'Ci::Build', id: job.id },
      payload: jobPayload(job),
    });
  }
};

/** Returns what changed of the jobs, by id. */
const takeSteps = async (
  tx: Tx,
  steps: ReadonlyMap<number, Step>,
): Promise<ReadonlyMap<number, Pick<CurrentJob, 'id' | 'status' | 'queued_at'>>> => {
  const { rows } = await sql<Pick<CurrentJob, 'id' | 'status' | 'queued_at'>>`
    update jobs set status = step.status, updated_at = now(),
      queued_at = case when step.status = 'pending' then now() else jobs.queued_at end,
      scheduled_at = case when step.status = 'scheduled'
        then now() + coalesce((jobs.options ->> 'start_in')::double precision, 0) * interval '1 second' end
    from unnest(${[...steps.keys()]}::bigint[], ${[...steps.values()]}::text[]) as step (id, status)
    where jobs.id = step.id
    returning jobs.id, jobs.status, jobs.queued_at`.execute(tx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

const refreshStages = async (tx: Tx, pipelineId: number, jobs: readonly CurrentJob[]): Promise<void> => {
  const statuses = [...Map.groupBy(jobs, (job) => job.stage_id)].flatMap(([id, members]) =>
    id === null ? [] : [{ id, status: statusOfJobs(members) }],
  );
  await sql`
    update stages set status = fresh.status, updated_at = now()
    from unnest(${statuses.map(({ id }) => id)}::bigint[], ${statuses.map(({ status }) => status)}::text[])
      as fresh (id, status)
    where stages.pipeline_id = ${pipelineId} and stages.id = fresh.id and stages.status <> fresh.status`.execute(tx.db);
};

/** Writes the status and the times of the pipeline if the status changed, and emits the event. */
const refreshPipeline = async (
  tx: Tx,
  before: LockedPipeline,
  jobs: readonly CurrentJob[],
  isNew: boolean,
): Promise<CiStatus> => {
  // A pipeline without jobs keeps its status: a file with errors stays failed.
  const status = statusOfJobs(jobs) ?? (isNew ? 'skipped' : statusOf(before));
  if (status === before.status && !isNew) return status;
  const isOver = isComplete({ status });
  const after = await tx.db
    .updateTable('pipelines')
    .set({
      status,
      updated_at: sql`now()`,
      ...(status === 'running' ? { started_at: sql`coalesce(started_at, now())` } : {}),
      finished_at: isOver ? sql`now()` : null,
      duration: isOver ? runningSeconds(jobs) : null,
    })
    .where('id', '=', before.id)
    .returningAll()
    .executeTakeFirstOrThrow();
  tx.emit(isNew ? pipelineCreated : pipelineUpdated, {
    ...eventScope(before),
    subject: { type: 'Ci::Pipeline', id: before.id },
    payload: pipelinePayload(after),
  });
  return status;
};

/** The job `ci.process_pipeline`: processes a pipeline that a runner found locked when it took a job. */
export const processLater = defineJob({
  name: 'ci.process_pipeline',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) =>
    ctx.transaction(async (tx) => {
      const pipeline = await lockPipeline(tx, id);
      if (pipeline) await processPipeline(tx, pipeline);
    }),
});
