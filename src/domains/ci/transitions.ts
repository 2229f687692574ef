import { type Selectable, sql } from 'kysely';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { Pipelines } from '#platform/db/tables.ts';
import { digestToken } from '#platform/secrets.ts';
import { jobUpdated, pipelineUpdated } from './events.ts';
import type { FailureReason } from './failures.ts';
import { jobOptions } from './options.ts';
import {
  type EventScopeColumns,
  eventScope,
  jobPayload,
  type PayloadJob,
  pipelinePayload,
  SCOPE_COLUMNS,
} from './payloads.ts';
import { cancelRows, emitRows, replaceRows } from './processing/rows.ts';
import { lockPipelineOf, processLater, processPipeline } from './processing.ts';
import { countRetries } from './queries.ts';

/** A pending job, and the runner that gets it. */
export interface Assignment {
  readonly id: number;
  readonly runner_id: number;
  readonly runner_manager_id: number | null;
  /** In seconds. The runner gets it with the job. */
  readonly timeout: number;
  /** The job's token (job-tokens.ts), if it gets one. */
  readonly token?: string | undefined;
}

interface StartedJob extends PayloadJob, EventScopeColumns {
  readonly stage_id: number | null;
}

/**
 * Hands pending jobs to runners: they are running from now on. Returns the ids of these jobs. It leaves out jobs that are
 * not pending any more, so that one of two runners gets a job. The caller may hold locks of the rows of the jobs: this
 * never waits for a pipeline.
 */
export const runJobs = async (tx: Tx, assignments: readonly Assignment[]): Promise<ReadonlySet<number>> => {
  const { rows } = await sql<StartedJob>`
    update jobs set status = 'running', started_at = now(), contacted_at = now(), updated_at = now(),
      runner_id = given.runner_id, runner_manager_id = given.manager_id, timeout = given.timeout,
      token_digest = given.digest
    from projects p, namespaces n, unnest(
        ${assignments.map(({ id }) => id)}::bigint[], ${assignments.map(({ runner_id }) => runner_id)}::bigint[],
        ${assignments.map(({ runner_manager_id }) => runner_manager_id)}::bigint[],
        ${assignments.map(({ timeout }) => timeout)}::integer[],
        ${assignments.map(({ token }) => (token === undefined ? null : digestToken(token)))}::bytea[]
      ) as given (id, runner_id, manager_id, timeout, digest)
    where jobs.id = given.id and jobs.status = 'pending' and p.id = jobs.project_id and n.id = p.namespace_id
    returning jobs.id, jobs.pipeline_id, jobs.project_id, jobs.stage_id, jobs.kind, jobs.name, jobs.status, jobs.ref,
      jobs.tag, jobs.allow_failure, jobs.tags, jobs.protected, jobs.failure_reason, jobs.environment, jobs.coverage,
      jobs.user_id, jobs.runner_id, jobs.created_at, jobs.queued_at, jobs.started_at, jobs.finished_at,
      (select stages.name from stages where stages.id = jobs.stage_id) as stage, ${SCOPE_COLUMNS}`.execute(tx.db);
  if (rows.length === 0) return new Set();
  for (const job of rows) {
    tx.emit(jobUpdated, { ...eventScope(job), subject: { type: 'Ci::Build', id: job.id }, payload: jobPayload(job) });
  }
  const scopes = new Map(rows.map((job) => [job.pipeline_id, job]));
  // While these shared locks are held nobody processes the pipelines. Their statuses are read after that, so they are
  // not stale.
  const locked = await sql<{ id: number }>`
    select id from pipelines where id = any (${[...scopes.keys()]}::bigint[]) for share skip locked`.execute(tx.db);
  const free = new Set(locked.rows.map(({ id }) => id));
  const left = await startPipelines(
    tx,
    rows.filter(({ pipeline_id }) => free.has(pipeline_id)),
    scopes,
  );
  for (const id of scopes.keys()) {
    if (!free.has(id) || left.has(id)) tx.enqueue(processLater, { id }, { key: `ci.process:${id}` });
  }
  return new Set(rows.map(({ id }) => id));
};

/**
 * Sets the stages and pipelines of the jobs to `running`, which one running job is enough for (status.ts). The caller
 * holds shared locks of the pipelines. Returns the pipelines that could not be changed, because others share the lock.
 */
const startPipelines = async (
  tx: Tx,
  jobs: readonly StartedJob[],
  scopes: ReadonlyMap<number, EventScopeColumns>,
): Promise<ReadonlySet<number>> => {
  if (jobs.length === 0) return new Set();
  const ids = [...new Set(jobs.map(({ pipeline_id }) => pipeline_id))];
  const stages = [...new Set(jobs.flatMap(({ stage_id }) => stage_id ?? []))];
  const { rows } = await sql<{ waiting_id: number } & (Selectable<Pipelines> | { readonly id: null })>`
    with waiting as materialized (
      select p.id from pipelines p
      where p.id = any (${ids}::bigint[]) and (p.status <> 'running' or exists (
        select from stages s where s.id = any (${stages}::bigint[]) and s.pipeline_id = p.id and s.status <> 'running'))
    ), locked as materialized (
      select p.id from pipelines p where p.id in (select id from waiting) for no key update skip locked
    ), moved_stages as (
      update stages set status = 'running', updated_at = now() from locked
      where stages.id = any (${stages}::bigint[]) and stages.pipeline_id = locked.id and stages.status <> 'running'
    ), moved as (
      update pipelines set status = 'running', updated_at = now(), started_at = coalesce(started_at, now()),
        finished_at = null, duration = null
      from locked where pipelines.id = locked.id and pipelines.status <> 'running'
      returning pipelines.*
    )
    select waiting.id as waiting_id, moved.* from waiting left join moved on moved.id = waiting.id
    where moved.id is not null or not exists (select from locked where locked.id = waiting.id)`.execute(tx.db);
  const left = new Set<number>();
  for (const { waiting_id, ...pipeline } of rows) {
    const scope = scopes.get(waiting_id);
    if (pipeline.id === null || !scope) left.add(waiting_id);
    else {
      tx.emit(pipelineUpdated, {
        ...eventScope(scope),
        subject: { type: 'Ci::Pipeline', id: pipeline.id },
        payload: pipelinePayload(pipeline),
      });
    }
  }
  return left;
};

type EndStatus = 'success' | 'failed' | 'canceled';

export interface Ending {
  readonly status: EndStatus;
  /** Defaults to `script_failure` for a failed job with an exit code, else to `unknown_failure`. */
  readonly failure_reason?: FailureReason | undefined;
  readonly exit_code?: number | undefined;
  /** Percent. */
  readonly coverage?: number | null | undefined;
}

/** How a job ended, and the row that replaces it if it is retried by itself. */
export interface Ended {
  readonly status: EndStatus;
  readonly retried_as: number | null;
}

/**
 * Ends a job once: its token ends, the pipeline moves on, and a failed job is retried if its `retry` says so. A job that
 * is being canceled ends as canceled, whatever is reported. Returns null if the job has ended before, or is gone, or does
 * not have the `expected` status. It locks the pipeline first: do not hold a lock of the job's row.
 */
export const finishJob = async (
  tx: Tx,
  jobId: number,
  { exit_code, coverage, ...ending }: Ending,
  expected?: string,
): Promise<Ended | null> => {
  const pipeline = await lockPipelineOf(tx, jobId);
  if (!pipeline) return null;
  // Runners get jobs without a lock of the pipeline, so the status holds only under a lock of the row.
  const job = await tx.db
    .selectFrom('jobs')
    .select(['id', 'name', 'kind', 'status', 'options', 'allow_failure'])
    .where('id', '=', jobId)
    .where('status', 'not in', ['success', 'failed', 'canceled', 'skipped'])
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (!job || (expected !== undefined && job.status !== expected)) return null;
  const status = job.status === 'canceling' ? 'canceled' : ending.status;
  const options = jobOptions(job);
  const failure_reason =
    status === 'failed'
      ? (ending.failure_reason ?? (exit_code === undefined ? 'unknown_failure' : 'script_failure'))
      : null;
  const isAllowed =
    status === 'failed' && exit_code !== undefined && (options?.allow_failure_exit_codes.includes(exit_code) ?? false);
  await tx.db
    .updateTable('jobs')
    .set({
      status,
      failure_reason,
      allow_failure: job.allow_failure || isAllowed,
      ...(exit_code === undefined ? {} : { exit_code }),
      ...(coverage == null ? {} : { coverage }),
      finished_at: sql`now()`,
      updated_at: sql`now()`,
      token_digest: null,
      ended_token_digest: sql.ref('token_digest'),
    })
    .where('id', '=', jobId)
    .execute();
  const changed = [jobId];
  const again =
    status === 'failed' &&
    (await retriesItself(tx, { ...job, pipeline_id: pipeline.id }, options, failure_reason, exit_code));
  let retried_as: number | null = null;
  if (again) {
    // The job leaves the list of current jobs before the pipeline is processed.
    await emitRows(tx, pipeline, jobUpdated, [jobId]);
    retried_as = (await replaceRows(tx, pipeline, [jobId], { userId: null })).get(jobId) ?? null;
  } else if (status === 'failed' && !job.allow_failure && !isAllowed && pipeline.auto_cancel_on_job_failure === 'all') {
    changed.push(...(await cancelRows(tx, pipeline, 'all')));
  }
  await processPipeline(tx, pipeline, {
    changed,
    ...(retried_as === null ? {} : { immediately: new Set([retried_as]) }),
  });
  return { status, retried_as };
};

/** How often a job without `retry` is retried when the hub could not schedule it (reference: ci §1). */
const SCHEDULER_RETRIES = 2;

const retriesItself = async (
  tx: Tx,
  job: { readonly id: number; readonly name: string; readonly pipeline_id: number },
  options: CompiledJob | null,
  reason: FailureReason | null,
  exitCode: number | undefined,
): Promise<boolean> => {
  // It would be outdated again. Only a person may start a rollback.
  if (options?.kind !== 'build' || reason === 'failed_outdated_deployment_job') return false;
  const { max, when, exit_codes } = options.retry;
  if (max === 0) return reason === 'scheduler_failure' && (await countRetries(tx, job)) < SCHEDULER_RETRIES;
  const reasons = when.length === 0 && exit_codes.length === 0 ? ['always'] : when;
  const fits =
    reasons.includes('always') ||
    reasons.includes(reason ?? '') ||
    (exitCode !== undefined && exit_codes.includes(exitCode));
  return fits && (await countRetries(tx, job)) < max;
};

/** Records a heartbeat of the runner of a running job, so that the job does not count as silent. */
export const recordContact = async ({ db }: Pick<Context, 'db'>, jobId: number): Promise<void> => {
  await db
    .updateTable('jobs')
    .set({ contacted_at: sql`now()` })
    .where('id', '=', jobId)
    .where('status', 'in', ['running', 'canceling'])
    .execute();
};
