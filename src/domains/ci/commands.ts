import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { givenProblemOf } from '#domains/ci-variables/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, forbidden, invalid, notFound, requireUnchanged, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { requireNotArchived, withoutArchived } from './archived.ts';
import { pipelineDeleted, pipelineRenamed } from './events.ts';
import { childrenOf } from './family.ts';
import { assignResource, dropPipelineRefs, endBridge } from './jobs.ts';
import { isComplete, statusOf } from './model.ts';
import { outdatedDeployments } from './outdated-deployments.ts';
import { eventScope, pipelinePayload } from './payloads.ts';
import { pipelineVariables } from './pipeline-variables.ts';
import { maySetVariables, requireCancel, requireRun } from './policy.ts';
import { queueStep, skippedAfter } from './processing/progress.ts';
import { cancelRows, ownJobs, replaceRows } from './processing/rows.ts';
import { type LockedPipeline, lockPipeline, type Processing, processPipeline } from './processing.ts';
import { getJob, getPipeline, type JobRow, jobByIdIn, type PipelineRow } from './queries.ts';
import { restorePipelineRef } from './refs.ts';
import { sealGivenValue } from './sealed-values.ts';

/** A variable that a person gives to a manual job. */
export interface JobVariable {
  readonly key: string;
  readonly value: string;
}

type JobState = Pick<JobRow, 'status' | 'run_when' | 'retried' | 'kind' | 'options'>;

/** Whether a person can start the job: a manual or delayed one that waits, or that has ended. */
export const isPlayable = (job: JobState): boolean =>
  !job.retried &&
  (job.run_when === 'manual' || job.run_when === 'delayed') &&
  (job.status === 'manual' || job.status === 'scheduled' || isRetryable(job));

/** Whether the job can run again, as a new row. */
export const isRetryable = ({ status, retried, kind }: JobState): boolean =>
  !retried && kind !== 'generic_commit_status' && ['success', 'failed', 'canceled', 'canceling'].includes(status);

/** Whether the job can be canceled. */
export const isCancelable = ({ status, retried }: JobState): boolean =>
  !retried && !isComplete({ status }) && status !== 'manual' && status !== 'canceling';

/** @throws DomainError as `playJob` and `retryJob` */
const getJobToRun = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  variables: readonly JobVariable[],
): Promise<JobRow> => {
  const found = await getJob(ctx, project, id);
  await requireRun(ctx, project, found);
  await requireNotArchived(ctx, found);
  if (variables.length > 0 && !maySetVariables(ctx, project)) throw forbidden();
  return found;
};

/**
 * Starts a manual job, or a delayed one before its time. One that has ended runs again as a new row. Returns the job
 * that runs.
 *
 * @throws DomainError as `getJob` and `requireRun`; `forbidden` if the job is archived, or the caller may not set
 *   variables; `bad_request`
 */
export const playJob = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  variables: readonly JobVariable[] = [],
): Promise<JobRow> => {
  const found = await getJobToRun(ctx, project, id, variables);
  return ctx.transaction(async (tx) => {
    const { pipeline, job } = await lockJob(tx, project, found);
    if (!isPlayable(job)) throw badRequest('Unplayable Job');
    if (isComplete(job) || job.status === 'canceling') return runAgain(tx, pipeline, job, variables);
    await giveVariables(tx, job.id, variables);
    await tx.db
      .updateTable('jobs')
      .set({
        status: queueStep(job),
        queued_at: job.resource_group_id === null ? sql`now()` : null,
        scheduled_at: null,
        user_id: tx.actor.userId,
        updated_at: sql`now()`,
      })
      .where('id', '=', job.id)
      .execute();
    await continuePipeline(tx, pipeline, [job.id], { changed: [job.id] });
    return jobByIdIn(tx, job.id);
  });
};

/**
 * Runs a job again, as a new row. The old one is marked as retried, and skipped jobs that follow get another chance.
 *
 * @throws DomainError as `getJob` and `requireRun`; `forbidden` if the job is archived or cannot be retried, or the
 *   caller may not set variables
 */
export const retryJob = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  variables: readonly JobVariable[] = [],
): Promise<JobRow> => {
  const found = await getJobToRun(ctx, project, id, variables);
  return ctx.transaction(async (tx) => {
    const { pipeline, job } = await lockJob(tx, project, found);
    if (!isRetryable(job)) throw forbidden('Job is not retryable');
    return runAgain(tx, pipeline, job, variables);
  });
};

/**
 * Cancels a job. Changes nothing if the job has ended. `force` ends a job that is being canceled without waiting for
 * its runner; that needs the Maintainer role.
 *
 * @throws DomainError as `getJob` and `requireCancel`; `forbidden`; `bad_request` if `force` is set for another job
 */
export const cancelJob = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  { force = false } = {},
): Promise<JobRow> => {
  const found = await getJob(ctx, project, id);
  requireCancel(ctx, project);
  if (force && project.access_level < MAINTAINER && !ctx.actor.isSystem) throw forbidden();
  return ctx.transaction(async (tx) => {
    const { pipeline, job } = await lockJob(tx, project, found);
    if (force && job.status !== 'canceling') throw badRequest('Job is not being canceled, so it cannot be forced');
    const changed = await cancelRows(tx, pipeline, [job.id], { force });
    if (changed.length > 0) await processPipeline(tx, pipeline, { changed });
    return jobByIdIn(tx, job.id);
  });
};

/** Turns a scheduled job into a manual one. @throws DomainError as `playJob` */
export const unscheduleJob = async (ctx: Context, project: ProjectRow, id: number): Promise<JobRow> => {
  const found = await getJob(ctx, project, id);
  await requireRun(ctx, project, found);
  return ctx.transaction(async (tx) => {
    const { pipeline, job } = await lockJob(tx, project, found);
    if (job.status !== 'scheduled') throw badRequest('Job is not scheduled');
    await tx.db
      .updateTable('jobs')
      .set({ status: 'manual', scheduled_at: null, updated_at: sql`now()` })
      .where('id', '=', job.id)
      .execute();
    await processPipeline(tx, pipeline, { changed: [job.id] });
    return jobByIdIn(tx, job.id);
  });
};

/** Cancels all jobs of the pipeline that can be. Its child pipelines follow. @throws as `getPipeline`, `requireCancel` */
export const cancelPipeline = async (ctx: Context, project: ProjectRow, id: number): Promise<PipelineRow> => {
  await getPipeline(ctx, project, id);
  requireCancel(ctx, project);
  await ctx.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, id);
    if (!pipeline) throw notFound('Pipeline');
    await cancelAll(tx, pipeline);
  });
  return getPipeline(ctx, project, id);
};

/** Cancels all jobs of a locked pipeline that can be. */
export const cancelAll = async (tx: Tx, pipeline: LockedPipeline): Promise<void> => {
  const changed = await cancelRows(tx, pipeline, 'all');
  if (changed.length > 0) await processPipeline(tx, pipeline, { changed });
};

/**
 * Runs the failed and canceled jobs of the pipeline again, except archived jobs and those that would replace a newer
 * deployment.
 *
 * @throws as `getPipeline`, `requireRun`
 */
export const retryPipeline = async (ctx: Context, project: ProjectRow, id: number): Promise<PipelineRow> => {
  const found = await getPipeline(ctx, project, id);
  await requireRun(ctx, project, found);
  await ctx.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, id);
    if (!pipeline) throw notFound('Pipeline');
    const ended = (await ownJobs(tx, pipeline)).filter(({ status }) => status === 'failed' || status === 'canceled');
    const endedIds = await withoutArchived(
      tx,
      ended.map((job) => job.id),
    );
    const outdated = await outdatedDeployments(tx, endedIds);
    const again = endedIds.filter((each) => !outdated.has(each));
    const ids = await replaceRows(tx, pipeline, again, { userId: tx.actor.userId });
    await continuePipeline(tx, pipeline, [...ids.values()]);
  });
  return getPipeline(ctx, project, id);
};

/**
 * Returns the variables that were given to the pipeline. They are for its user and for Maintainers; those of a schedule
 * only for its owner, or for the pipeline's user once the schedule is deleted.
 *
 * @throws DomainError as `getPipeline` and `requireRun`, `forbidden`
 */
export const getPipelineVariables = async (ctx: Context, project: ProjectRow, id: number) => {
  const pipeline = await getPipeline(ctx, project, id);
  await requireRun(ctx, project, pipeline);
  if (!(await mayReadVariables(ctx, project, pipeline))) throw forbidden();
  return pipelineVariables(ctx, id);
};

/** Whether the caller, who may run jobs on its branch or tag, may read the variables that the pipeline was given. */
export const mayReadVariables = async (ctx: Context, project: ProjectRow, pipeline: PipelineRow): Promise<boolean> => {
  const { userId, isSystem } = ctx.actor;
  if (isSystem || (pipeline.source !== 'schedule' && project.access_level >= MAINTAINER)) return true;
  return userId !== null && userId === (await ownerOfVariables(ctx, pipeline));
};

const ownerOfVariables = async (ctx: Context, { schedule_id, user_id }: PipelineRow): Promise<number | null> => {
  if (schedule_id === null) return user_id;
  const { db } = ctx;
  const schedule = await db
    .selectFrom('pipeline_schedules')
    .select('owner_id')
    .where('id', '=', schedule_id)
    .executeTakeFirst();
  return schedule ? schedule.owner_id : user_id;
};

const MAX_NAME = 255;

/** Renames a pipeline. @throws DomainError as `getPipeline`, `requireAbility(admin_pipeline)`; `invalid` */
export const renamePipeline = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  name: string,
): Promise<PipelineRow> => {
  await getPipeline(ctx, project, id);
  requireAbility(ctx, project, 'admin_pipeline');
  if (isLongerThan(name, MAX_NAME)) throw invalid({ name: [tooLong(MAX_NAME)] });
  await ctx.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, id);
    if (!pipeline) throw notFound('Pipeline');
    if (pipeline.name === name) return;
    const renamed = await tx.db
      .updateTable('pipelines')
      .set({ name, updated_at: sql`now()` })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow();
    tx.emit(pipelineRenamed, {
      ...eventScope(pipeline),
      subject: { type: 'Ci::Pipeline', id },
      payload: pipelinePayload(renamed),
    });
  });
  return getPipeline(ctx, project, id);
};

/**
 * Deletes a pipeline with its jobs, and its child pipelines. Owners only.
 *
 * @throws DomainError as `getPipeline`, `requireAbility(remove_pipeline)`, `modified`
 */
export const deletePipeline = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> => {
  await getPipeline(ctx, project, id);
  requireAbility(ctx, project, 'remove_pipeline');
  const ids = await childrenOf(ctx, id);
  await ctx.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, id);
    if (!pipeline) throw notFound('Pipeline');
    requireUnchanged(pipeline, unchangedSince);
    const { rows: groups } = await sql<{ id: number }>`
      select distinct resource_group_id as id from jobs
      where pipeline_id = any (${ids}::bigint[]) and resource_group_id is not null`.execute(tx.db);
    await tx.db.deleteFrom('pipelines').where(sql<boolean>`id = any (${ids}::bigint[])`).execute();
    // Jobs that waited for these pipelines continue.
    for (const group of groups) tx.enqueue(assignResource, group);
    if (pipeline.bridge_job_id !== null) tx.enqueue(endBridge, { id: pipeline.bridge_job_id });
    for (const each of ids) {
      tx.emit(pipelineDeleted, {
        ...eventScope(pipeline),
        subject: { type: 'Ci::Pipeline', id: each },
        payload: { id: each },
      });
    }
    tx.enqueue(dropPipelineRefs, { project_id: project.id, ids });
  });
};

/** Locks the pipeline of the job, and reads the job as it is then. */
const lockJob = async (
  tx: Tx,
  project: ProjectRow,
  { id, pipeline_id }: JobRow,
): Promise<{ pipeline: LockedPipeline; job: JobRow }> => {
  const pipeline = await lockPipeline(tx, pipeline_id);
  if (!pipeline) throw notFound();
  return { pipeline, job: await getJob(tx, project, id) };
};

const runAgain = async (
  tx: Tx,
  pipeline: LockedPipeline,
  job: JobRow,
  variables: readonly JobVariable[],
): Promise<JobRow> => {
  if ((await outdatedDeployments(tx, [job.id])).has(job.id)) {
    throw forbidden('Job is not retryable: a newer deployment has replaced it');
  }
  // A runner that still stops the old job learns that it has ended.
  if (statusOf(job) === 'canceling') await cancelRows(tx, pipeline, [job.id], { force: true });
  const keepVariables = variables.length === 0;
  const ids = await replaceRows(tx, pipeline, [job.id], { userId: tx.actor.userId, keepVariables });
  const id = ids.get(job.id);
  if (id === undefined) throw notFound();
  await giveVariables(tx, id, variables);
  await continuePipeline(tx, pipeline, [id], { immediately: new Set([id]) });
  return jobByIdIn(tx, id);
};

/**
 * Processes the pipeline after jobs were started: skipped jobs that follow them may run after all. `changed` has the jobs
 * whose change has no event yet.
 */
const continuePipeline = async (
  tx: Tx,
  pipeline: LockedPipeline,
  started: readonly number[],
  { changed = [], ...other }: Pick<Processing, 'immediately'> & { readonly changed?: readonly number[] } = {},
): Promise<void> => {
  if (isComplete(pipeline)) await restorePipelineRef(tx, pipeline);
  const reset = skippedAfter(await ownJobs(tx, pipeline), new Set(started));
  await tx.db
    .updateTable('jobs')
    .set({ status: 'created', user_id: tx.actor.userId, finished_at: null, updated_at: sql`now()` })
    .where(sql<boolean>`id = any (${reset}::bigint[])`)
    .execute();
  await processPipeline(tx, pipeline, { ...other, changed: [...changed, ...reset] });
};

/** Given to one job. */
const MAX_JOB_VARIABLES = 100;

/** @throws DomainError `invalid` */
const giveVariables = async (tx: Tx, job_id: number, variables: readonly JobVariable[]): Promise<void> => {
  if (variables.length === 0) return;
  const problem = givenProblemOf(variables, MAX_JOB_VARIABLES);
  if (problem !== null) throw invalid({ variables: [problem] });
  const values = new Map(variables.map(({ key, value }) => [key, value]));
  await tx.db
    .insertInto('job_variables')
    .values(
      [...values].map(([key, value]) => ({ job_id, key, sealed_value: sealGivenValue(tx, value), source: 'manual' })),
    )
    .onConflict((conflict) =>
      conflict
        .columns(['job_id', 'key', 'source'])
        .doUpdateSet(({ ref }) => ({ sealed_value: ref('excluded.sealed_value') })),
    )
    .execute();
};
