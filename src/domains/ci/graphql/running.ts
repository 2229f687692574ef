import { loadProject } from '#domains/projects/graphql.ts';
import { batchedProtections } from '#domains/repositories/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { archivedBefore, isArchived } from '../archived.ts';
import { isCancelable, isPlayable, isRetryable } from '../commands.ts';
import {
  downstreamByPipelineIds,
  hasRetryableByPipelineIds,
  type JobNeed,
  latestByPipelineIds,
  needingByPipelineIds,
  needsByJobIds,
  previousStageJobs,
  visibleDownstream,
  visibleUpstream,
} from '../family.ts';
import { JobConnection, JobRef, loadJob, loadPipeline, PipelineConnection, PipelineRef } from '../graphql.ts';
import { commitPath, fullRef, isComplete, jobPath, pipelinePath } from '../model.ts';
import { mayCancel, mayRunOn } from '../policy.ts';
import type { JobRow } from '../queries.ts';

// Mutations of pipelines and jobs, and the dependencies between jobs.

const loadNeeds = loader(needsByJobIds);
const loadDownstreamOfBridge = loader(visibleDownstream);
const loadDownstream = loader(downstreamByPipelineIds);
const loadUpstream = loader(visibleUpstream);
const loadRetryable = loader(hasRetryableByPipelineIds);
const loadLatest = loader(latestByPipelineIds);
const loadNeeding = loader(needingByPipelineIds);
const loadPrevious = loader(previousStageJobs);

const NeedRef = builder.objectRef<JobNeed>('CiBuildNeed').implement({
  description: 'A job that another job waits for.',
  fields: (t) => ({
    // Nullable as that of jobs, so that one selection can have both.
    id: t.id({ resolve: ({ job_id, name }) => `${job_id}-${name}` }),
    name: t.exposeString('name'),
  }),
});
const NeedOrJob = builder.unionType('JobNeedUnion', {
  types: [NeedRef, JobRef],
  resolveType: (before) => ('job_id' in before ? NeedRef : JobRef),
});
const NeedOrJobConnection = builder.connectionObject(
  { type: NeedOrJob, name: 'JobNeedUnionConnection' },
  { name: 'JobNeedUnionEdge' },
);
const NeedConnection = builder.connectionObject(
  { type: NeedRef, name: 'CiBuildNeedConnection' },
  { name: 'CiBuildNeedEdge' },
);

/** Whether the caller may run jobs on the branch or tag. */
export const mayRun = async (
  ctx: Context,
  row: { readonly project_id: number; readonly ref: string | null; readonly tag: boolean },
): Promise<boolean> => {
  const project = await loadProject(ctx, row.project_id);
  return project !== null && mayRunOn(ctx, project, row, batchedProtections);
};

/** Whether the caller may cancel pipelines and jobs of the project. */
export const mayStop = async (ctx: Context, { project_id }: { readonly project_id: number }): Promise<boolean> => {
  const project = await loadProject(ctx, project_id);
  return project !== null && mayCancel(ctx, project);
};

builder.objectFields(PipelineRef, (t) => ({
  child: t.boolean({
    nullable: false,
    description: 'Whether a job of another pipeline of the project started it.',
    resolve: ({ source }) => source === 'parent_pipeline',
  }),
  refPath: t.string({ resolve: ({ ref, tag }) => (ref === null ? null : fullRef(ref, tag)) }),
  commitPath: t.string({ resolve: commitPath }),
  latest: t.boolean({
    nullable: false,
    description: 'Whether it is the newest of its branch, tag or merge request.',
    resolve: async ({ id }, _args, ctx) => (await loadLatest(ctx, id)) ?? false,
  }),
  usesNeeds: t.boolean({
    description: 'Whether a job names the jobs that it waits for.',
    resolve: async ({ id }, _args, ctx) => (await loadNeeding(ctx, id)) ?? false,
  }),
  cancelable: t.boolean({
    nullable: false,
    description: 'Whether the caller can cancel it now.',
    resolve: async (row, _args, ctx) => !isComplete(row) && row.status !== 'manual' && (await mayStop(ctx, row)),
  }),
  retryable: t.boolean({
    nullable: false,
    description: 'Whether the caller can run failed or canceled jobs of it again.',
    resolve: async (row, _args, ctx) => ((await loadRetryable(ctx, row.id)) ?? false) && (await mayRun(ctx, row)),
  }),
  sourceJob: t.field({
    type: JobRef,
    description: 'The job that started it, if the caller can see it.',
    resolve: async (row, _args, ctx) =>
      row.bridge_job_id !== null && (await loadUpstream(ctx, row.id)) ? loadJob(ctx, row.bridge_job_id) : null,
  }),
  upstream: t.field({
    type: PipelineRef,
    description: 'The pipeline whose job started it, if the caller can see it.',
    resolve: ({ id }, _args, ctx) => loadUpstream(ctx, id),
  }),
  triggeredByPath: t.string({
    description: 'The path of the upstream pipeline, if the caller can see it.',
    resolve: async ({ id }, _args, ctx) => {
      const upstream = await loadUpstream(ctx, id);
      return upstream && pipelinePath(upstream);
    },
  }),
  downstream: t.connection(
    {
      type: PipelineRef,
      extensions: { usualSize: 5 },
      description: 'The pipelines that its jobs started, as far as the caller can see them.',
      resolve: ({ id }, args, ctx, info) =>
        connection(args, info, async (page) =>
          pageOfAll(page, (await loadDownstream(ctx, id)) ?? [], (pipeline) => [pipeline.id]),
        ),
    },
    PipelineConnection,
  ),
}));

builder.objectFields(JobRef, (t) => ({
  cancelable: t.boolean({
    nullable: false,
    description: 'Whether the caller can cancel it now.',
    resolve: async (row, _args, ctx) => isCancelable(row) && (await mayStop(ctx, row)),
  }),
  retryable: t.boolean({
    nullable: false,
    description: 'Whether the job has ended and can run again.',
    resolve: async (row, _args, ctx) => isRetryable(row) && !isArchived(row, await archivedBefore(ctx)),
  }),
  playable: t.boolean({
    nullable: false,
    description: 'Whether the job is manual or delayed, and can be started.',
    resolve: async (row, _args, ctx) => isPlayable(row) && !isArchived(row, await archivedBefore(ctx)),
  }),
  canPlayJob: t.boolean({
    nullable: false,
    description: 'Whether the caller can start it now.',
    resolve: async (row, _args, ctx) =>
      isPlayable(row) && !isArchived(row, await archivedBefore(ctx)) && (await mayRun(ctx, row)),
  }),
  source: t.string({
    description: 'What started its pipeline.',
    resolve: async ({ pipeline_id }, _args, ctx) => (await loadPipeline(ctx, pipeline_id))?.source ?? null,
  }),
  refPath: t.string({ resolve: ({ ref, tag }) => (ref === null ? null : fullRef(ref, tag)) }),
  commitPath: t.string({ resolve: commitPath }),
  playPath: t.string({ resolve: (job) => `${jobPath(job)}/play` }),
  browseArtifactsPath: t.string({ resolve: (job) => `${jobPath(job)}/artifacts/browse` }),
  retryPath: t.string({ resolve: (job) => `${jobPath(job)}/retry` }),
  previousStageJobs: t.connection(
    {
      type: JobRef,
      extensions: { usualSize: 10 },
      description: 'The jobs of the stage before its own.',
      resolve: ({ id }, args, ctx, info) =>
        connection(args, info, async (page) => pageOfAll(page, (await loadPrevious(ctx, id)) ?? [], (job) => [job.id])),
    },
    JobConnection,
  ),
  previousStageJobsOrNeeds: t.connection(
    {
      type: NeedOrJob,
      extensions: { usualSize: 10 },
      description: 'The jobs that it waits for: those that it names, or else those of the stage before its own.',
      resolve: ({ id, scheduling_type }, args, ctx, info) =>
        connection(args, info, async (page) => {
          const before: readonly (JobNeed | JobRow)[] =
            (scheduling_type === 'dag' ? await loadNeeds(ctx, id) : await loadPrevious(ctx, id)) ?? [];
          return pageOfAll(page, before, ({ name }) => [name]);
        }),
    },
    NeedOrJobConnection,
  ),
  tags: t.exposeStringList('tags', { description: 'The tags that its runner needs.' }),
  scheduledAt: t.expose('scheduled_at', { type: 'Time', description: 'When a delayed job starts.' }),
  exitCode: t.exposeInt('exit_code'),
  needs: t.connection(
    {
      type: NeedRef,
      extensions: { usualSize: 5 },
      resolve: ({ id }, args, ctx, info) =>
        connection(args, info, async (page) =>
          pageOfAll(page, (await loadNeeds(ctx, id)) ?? [], (need) => [need.name]),
        ),
    },
    NeedConnection,
  ),
  downstreamPipeline: t.field({
    type: PipelineRef,
    description: 'The pipeline that it started, if the caller can see it.',
    resolve: ({ id, kind }, _args, ctx) => (kind === 'bridge' ? loadDownstreamOfBridge(ctx, id) : null),
  }),
}));
