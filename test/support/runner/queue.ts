import { lockPipeline, processPipeline } from '#domains/ci/processing.ts';
import { type CompiledJob, EMPTY_JOB } from '#domains/ci-config/model.ts';
import { appendTrace } from '#domains/traces/commands.ts';
import { findTrace } from '#domains/traces/queries.ts';
import { insertPipeline } from '../../merge-requests/support.ts';
import type { TestApp } from '../app.ts';

/** A job of a CI file that sets nothing but its name. */
export const compiledJob = (attributes: Partial<CompiledJob> & { readonly name: string }): CompiledJob => ({
  ...EMPTY_JOB,
  script: ['true'],
  ...attributes,
});

type PipelineAttributes = Parameters<typeof insertPipeline>[1];

/** Inserts a pipeline of these jobs and starts it, as if a CI file had been compiled. */
export const queuePipeline = async (
  app: TestApp,
  { protected: isProtected = false, user_id = null, ...pipeline }: PipelineAttributes,
  jobs: readonly (Partial<CompiledJob> & { readonly name: string })[],
): Promise<{ readonly id: number; readonly jobs: readonly number[] }> => {
  const ctx = app.context();
  const compiled = jobs.map(compiledJob);
  const stages = [...new Set(compiled.map(({ stage }) => stage))];
  return ctx.transaction(async (tx) => {
    const inserted = await insertPipeline(
      tx.db,
      { status: 'created', protected: isProtected, user_id, ...pipeline },
      compiled.map((job) => ({
        name: job.name,
        stage: job.stage,
        stage_idx: stages.indexOf(job.stage),
        status: 'created',
        run_when: job.when,
        tags: [...job.tags],
        protected: isProtected,
        user_id,
        ref: pipeline.ref ?? 'main',
        tag: pipeline.tag ?? false,
        allow_failure: job.allow_failure,
        environment: job.environment?.name ?? null,
        options: JSON.stringify(job),
        scheduling_type: job.needs ? 'dag' : 'stage',
      })),
    );
    for (const [index, { needs }] of compiled.entries()) {
      for (const { name, artifacts, optional } of needs ?? []) {
        const job_id = inserted.jobs[index] ?? 0;
        await tx.db.insertInto('job_needs').values({ job_id, name, artifacts, optional }).execute();
      }
    }
    const locked = await lockPipeline(tx, inserted.id);
    if (locked) await processPipeline(tx, locked, { isNew: true });
    return { id: inserted.id, jobs: inserted.jobs };
  });
};

/** Creates a runner with the rights of an administrator, and returns its token. */
export const makeRunner = async (
  app: TestApp,
  attributes: Readonly<Record<string, unknown>> = {},
): Promise<{ readonly id: number; readonly token: string }> => {
  const { body } = await app.as(app.root).post('/user/runners', { runner_type: 'instance_type', ...attributes });
  return body;
};

/** Returns the status of a job. */
export const statusOf = async (app: TestApp, id: number): Promise<{ status: string; failure_reason: string | null }> =>
  app.hub.services.db
    .selectFrom('jobs')
    .select(['status', 'failure_reason'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();

/** Appends to the log of a job, as if its runner had sent the text. */
export const appendTo = async (app: TestApp, job_id: number, text: string, debug = false) => {
  const start = (await findTrace(app.context(), job_id))?.size ?? 0;
  return appendTrace(app.context(), job_id, { start, bytes: Buffer.from(text), debug });
};
