import { subscriptionField } from '#graphql/subscription.ts';
import { jobCreated, jobUpdated, pipelineCreated, pipelineUpdated } from '../events.ts';
import { JobRef, PipelineRef } from '../graphql.ts';
import { getJobById, getPipelineById, getPipelineProject, jobsByIds, pipelinesByIds } from '../queries.ts';

const JOB_KINDS = new Set([jobCreated.kind, jobUpdated.kind]);
const PIPELINE_KINDS = new Set([pipelineCreated.kind, pipelineUpdated.kind]);

subscriptionField('ciJobStatusUpdated', {
  description: 'Follows the status of a job. Each update has the job as it is now.',
  type: JobRef,
  args: (t) => ({ jobId: t({ type: 'JobID', required: true }) }),
  open: async (ctx, { jobId }) => {
    const { project_id } = await getJobById(ctx, jobId);
    return { kinds: JOB_KINDS, project_id, subject: { type: 'Ci::Build', id: jobId } };
  },
  resolve: async ({ subject_id }, _args, ctx) => (await jobsByIds(ctx, [subject_id])).get(subject_id) ?? null,
});

subscriptionField('ciPipelineStatusUpdated', {
  description: 'Follows the status of a pipeline. Each update has the pipeline as it is now.',
  type: PipelineRef,
  args: (t) => ({ pipelineId: t({ type: 'CiPipelineID', required: true }) }),
  open: async (ctx, { pipelineId }) => {
    const { project_id } = await getPipelineById(ctx, pipelineId);
    return { kinds: PIPELINE_KINDS, project_id, subject: { type: 'Ci::Pipeline', id: pipelineId } };
  },
  resolve: async ({ subject_id }, _args, ctx) => (await pipelinesByIds(ctx, [subject_id])).get(subject_id) ?? null,
});

subscriptionField('ciPipelineStatusesUpdated', {
  description: 'Follows the status of all pipelines of a project.',
  type: PipelineRef,
  args: (t) => ({ projectId: t({ type: 'ProjectID', required: true }) }),
  open: async (ctx, { projectId }) => {
    const { id } = await getPipelineProject(ctx, projectId);
    return { kinds: PIPELINE_KINDS, project_id: id };
  },
  resolve: async ({ subject_id }, _args, ctx) => (await pipelinesByIds(ctx, [subject_id])).get(subject_id) ?? null,
});
