import type { ProjectRow } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { boolean, hash, idOrPath, integer, list, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { cancelJob, playJob, retryJob } from '../commands.ts';
import type { JobRow } from '../queries.ts';
import { jobRecord, toJobs } from '../record.ts';

const tag = 'Pipelines';
const ofJob = { id: idOrPath(), job_id: integer({ min: 1 }) };
const variables = list(hash({ key: text(), value: text() }))
  .default([])
  .describe('Variables for the job, in addition to those of its pipeline. At most 100.');

const answer = async (ctx: Context, project: ProjectRow, row: JobRow) => {
  const [job] = await toJobs(ctx, project, [row]);
  if (!job) throw notFound();
  return job;
};

export const jobRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/jobs/:job_id/play',
    tag,
    summary: 'Start a manual job, or a delayed one before its time',
    status: 200,
    input: { ...ofJob, job_variables_attributes: variables },
    response: jobRecord,
    run: async (ctx, { id, job_id, job_variables_attributes }) => {
      const project = await getProject(ctx, id);
      return answer(ctx, project, await playJob(ctx, project, job_id, job_variables_attributes));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/jobs/:job_id/retry',
    tag,
    summary: 'Run a job again',
    description: 'The answer is the new job.',
    input: { ...ofJob, job_variables_attributes: variables },
    response: jobRecord,
    run: async (ctx, { id, job_id, job_variables_attributes }) => {
      const project = await getProject(ctx, id);
      return answer(ctx, project, await retryJob(ctx, project, job_id, job_variables_attributes));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/jobs/:job_id/cancel',
    tag,
    summary: 'Cancel a job',
    input: {
      ...ofJob,
      force: boolean()
        .default(false)
        .describe('Ends a job that is being canceled without waiting for its runner. Maintainers only.'),
    },
    response: jobRecord,
    run: async (ctx, { id, job_id, force }) => {
      const project = await getProject(ctx, id);
      return answer(ctx, project, await cancelJob(ctx, project, job_id, { force }));
    },
  }),
] satisfies readonly Route[];
