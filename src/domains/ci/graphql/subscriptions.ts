import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { subscriptionField } from '#graphql/subscription.ts';
import { notFound } from '#platform/errors.ts';
import { jobCreated, jobUpdated, pipelineCreated, pipelineUpdated } from '../events.ts';
import { JobRef, PipelineRef } from '../graphql.ts';
import { getJob, getPipeline, jobsByIds, pipelinesByIds } from '../queries.ts';

const JOB_KINDS = new Set([jobCreated.kind, jobUpdated.kind]);
const PIPELINE_KINDS = new Set([pipelineCreated.kind, pipelineUpdated.kind]);

subscriptionField('ciJobStatusUpdated', {
  description: 'Follows the status of a job. Each update has the job as it is now.',
  type: JobRef,
  args: (t) => ({ jobId: t({ type: 'JobID', required: true }) }),
  open: async (ctx, { jobId }) => {
    const row = (await jobsByIds(ctx, [jobId])).get(jobId);
    if (!row) throw notFound();
    await getJob(ctx, await getProject(ctx, { id: row.project_id }), jobId);
    return { kinds: JOB_KINDS, project_id: row.project_id, subject: { type: 'Ci::Build', id: jobId } };
  },
  resolve: async ({ subject_id }, _args, ctx) => (await jobsByIds(ctx, [subject_id])).get(subject_id) ?? null,
});

subscriptionField('ciPipelineStatusUpdated', {
  description: 'Follows the status of a pipeline. Each update has the pipeline as it is now.',
  type: PipelineRef,
  args: (t) => ({ pipelineId: t({ type: 'CiPipelineID', required: true }) }),
  open: async (ctx, { pipelineId }) => {
    const row = (await pipelinesByIds(ctx, [pipelineId])).get(pipelineId);
    if (!row) throw notFound('Pipeline');
    await getPipeline(ctx, await getProject(ctx, { id: row.project_id }), pipelineId);
    return { kinds: PIPELINE_KINDS, project_id: row.project_id, subject: { type: 'Ci::Pipeline', id: pipelineId } };
  },
  resolve: async ({ subject_id }, _args, ctx) => (await pipelinesByIds(ctx, [subject_id])).get(subject_id) ?? null,
});

subscriptionField('ciPipelineStatusesUpdated', {
  description: 'Follows the status of all pipelines of a project.',
  type: PipelineRef,
  args: (t) => ({ projectId: t({ type: 'ProjectID', required: true }) }),
  open: async (ctx, { projectId }) => {
    const project = await getProject(ctx, { id: projectId });
    requireAbility(ctx, project, 'read_pipeline');
    return { kinds: PIPELINE_KINDS, project_id: project.id };
  },
  resolve: async ({ subject_id }, _args, ctx) => (await pipelinesByIds(ctx, [subject_id])).get(subject_id) ?? null,
});
