import { lockPipeline, processPipeline } from '#domains/ci/processing.ts';
import { finishJob, runJobs } from '#domains/ci/transitions.ts';
import { type CompiledJob, EMPTY_JOB, type JobEnvironment } from '#domains/ci-config/model.ts';
import type { TestApp } from '../support/app.ts';

const PLAIN: CompiledJob = { ...EMPTY_JOB, name: 'job', stage: 'deploy', script: ['true'] };

export const environment = (name: string, given: Partial<JobEnvironment> = {}): JobEnvironment => ({
  ...{ name, url: null, on_stop: null, action: 'start', auto_stop_in: null, deployment_tier: null },
  ...given,
});

export interface TestJob extends Partial<CompiledJob> {
  readonly name: string;
}

/** Inserts a pipeline with these jobs in one stage, and starts it. Returns the ids of the jobs in order. */
export const startPipeline = async (
  app: TestApp,
  at: { readonly project_id: number; readonly sha: string; readonly ref: string; readonly user_id: number },
  jobs: readonly TestJob[],
): Promise<{ readonly id: number; readonly jobs: readonly number[] }> =>
  app.context().transaction(async (tx) => {
    const { project_id, sha, ref, user_id } = at;
    const { count } = await tx.db
      .selectFrom('pipelines')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('project_id', '=', project_id)
      .executeTakeFirstOrThrow();
    const { id } = await tx.db
      .insertInto('pipelines')
      .values({ project_id, sha, ref, user_id, iid: count + 1 })
      .returning('id')
      .executeTakeFirstOrThrow();
    const stage = await tx.db
      .insertInto('stages')
      .values({ pipeline_id: id, name: 'deploy', position: 0 })
      .returning('id')
      .executeTakeFirstOrThrow();
    const ids: number[] = [];
    for (const job of jobs) {
      const group =
        job.resource_group == null
          ? null
          : await tx.db
              .insertInto('resource_groups')
              .values({ project_id, key: job.resource_group })
              .onConflict((clash) =>
                clash.columns(['project_id', 'key']).doUpdateSet({ key: job.resource_group ?? '' }),
              )
              .returning('id')
              .executeTakeFirstOrThrow();
      const row = await tx.db
        .insertInto('jobs')
        .values({
          ...{ project_id, pipeline_id: id, stage_id: stage.id, stage_idx: 0, ref, user_id, name: job.name },
          run_when: job.when ?? 'on_success',
          allow_failure: job.allow_failure ?? false,
          environment: job.environment?.name ?? null,
          resource_group_id: group?.id ?? null,
          options: JSON.stringify({ ...PLAIN, ...job }),
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      ids.push(row.id);
    }
    const pipeline = await lockPipeline(tx, id);
    if (pipeline) await processPipeline(tx, pipeline, { isNew: true });
    return { id, jobs: ids };
  });

/** Runs a pending job on a runner of the instance. */
export const run = async (app: TestApp, jobId: number): Promise<void> => {
  const { db } = app.hub.services;
  const runner = await db
    .insertInto('runners')
    .values({ runner_type: 'instance_type', digest: Buffer.from(crypto.randomUUID()) })
    .returning('id')
    .executeTakeFirstOrThrow();
  const assignment = { id: jobId, runner_id: runner.id, runner_manager_id: null, timeout: 60 };
  const started = await app.context().transaction((tx) => runJobs(tx, [assignment]));
  if (!started.has(jobId)) throw new Error(`the job ${jobId} is not pending`);
};

/** Ends a running job. */
export const finish = async (
  app: TestApp,
  jobId: number,
  status: 'success' | 'failed' | 'canceled' = 'success',
): Promise<void> => {
  const ended = await app.context().transaction((tx) => finishJob(tx, jobId, { status }));
  if (!ended) throw new Error(`the job ${jobId} has ended before`);
};
