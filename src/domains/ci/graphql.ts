import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { listJobsBelow } from './job-lists.ts';
import {
  CI_STATUSES,
  type CiStatus,
  type DetailedStatus,
  detailedStatus,
  isActive,
  isComplete,
  type JobKind,
  jobDuration,
  jobPath,
  jobWebUrl,
  pipelinePath,
  pipelineWebUrl,
  queuedSeconds,
  secondsBetween,
  statusOf,
} from './model.ts';
import {
  type JobRow,
  jobsByIds,
  newestJobs,
  type PipelineRow,
  pipelineSummariesByIds,
  pipelinesByIds,
  type StageRow,
  stagesByIds,
  stagesByPipelineIds,
  warningsByStageIds,
} from './queries.ts';

export const PipelineStatusEnum = builder.enumType('PipelineStatusEnum', { values: upperCase(CI_STATUSES) });
export const CiJobStatus = builder.enumType('CiJobStatus', { values: upperCase(CI_STATUSES) });
export const CiJobKind = builder.enumType('CiJobKind', { values: upperCase(['build', 'bridge']) });

/** Loads a pipeline. Resolvers must have checked `read_pipeline`. */
export const loadPipeline: (ctx: Context, id: number) => Promise<PipelineRow | null> = loader(pipelinesByIds);
/** Loads a job. Resolvers must have checked `read_pipeline`. */
export const loadJob = loader(jobsByIds);
/** By the id of the pipeline and the name of the job. */
const loadNewestJob = loader(async (ctx: Context, keys: readonly string[]) => {
  const jobs = await newestJobs(
    ctx,
    keys.map((key) => {
      const space = key.indexOf(' ');
      return { pipeline_id: Number(key.slice(0, space)), name: key.slice(space + 1) };
    }),
  );
  return new Map(keys.flatMap((key, index) => (jobs[index] ? [[key, jobs[index]] as const] : [])));
});
const loadSummary = loader(pipelineSummariesByIds);
const loadStages = loader(stagesByPipelineIds);
const loadWarnings = loader(warningsByStageIds);
/** Loads a stage. Resolvers must check `read_pipeline`. */
export const loadStage = loader(stagesByIds);

/** A status for display, with the job that it is of. */
export interface ShownStatus extends DetailedStatus {
  readonly job?: JobRow | undefined;
}

export const DetailedStatusRef = builder.objectRef<ShownStatus>('DetailedStatus').implement({
  description: 'A status for display.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ group, details_path }) => `${group}-${details_path}` }),
    icon: t.exposeString('icon'),
    text: t.exposeString('text'),
    label: t.exposeString('label'),
    group: t.exposeString('group'),
    tooltip: t.exposeString('tooltip'),
    hasDetails: t.exposeBoolean('has_details'),
    detailsPath: t.exposeString('details_path'),
  }),
});

/**
 * A pipeline. Resolvers must have checked `read_pipeline`. Downstream domains add fields with
 * `builder.objectField(PipelineRef, ...)`.
 */
export const PipelineRef = builder.objectRef<PipelineRow>('Pipeline');
export const PipelineConnection = builder.connectionObject(
  { type: PipelineRef, name: 'PipelineConnection' },
  { name: 'PipelineEdge' },
);

export interface StageNode extends StageRow {
  readonly pipeline: PipelineRow;
}
/** A stage. Resolvers must have checked `read_pipeline`. */
export const StageRef = builder.objectRef<StageNode>('CiStage');
const StageConnection = builder.connectionObject(
  { type: StageRef, name: 'CiStageConnection' },
  { name: 'CiStageEdge' },
);

/** A job. Resolvers must have checked `read_pipeline`. Downstream domains add fields as to `PipelineRef`. */
export const JobRef = builder.objectRef<JobRow>('CiJob');
/** The actions that the caller may take on a job. Downstream domains add fields. */
export const JobPermissionsRef = builder.objectRef<JobRow>('JobPermissions');
export const JobConnection = builder.connectionObject(
  {
    type: JobRef,
    name: 'CiJobConnection',
    fields: (t) => ({
      count: t.int({
        nullable: false,
        description: 'The number of jobs. If there are more than `limit`, one more than `limit`.',
        args: { limit: t.arg.int({ defaultValue: 500 }) },
        resolve: (jobs, { limit }) => jobs.count(limit ?? undefined),
      }),
    }),
  },
  { name: 'CiJobEdge' },
);

/** Returns the status of a job for display. */
export const shownStatus = (job: JobRow): ShownStatus => ({ ...detailedStatus(statusOf(job), jobPath(job)), job });

interface JobArguments extends ConnectionArguments {
  readonly statuses?: readonly CiStatus[] | null | undefined;
  readonly retried?: boolean | null | undefined;
  readonly jobKind?: JobKind | null | undefined;
  readonly whenExecuted?: readonly string[] | null | undefined;
  readonly withArtifacts?: boolean | null | undefined;
}

/** Declares a connection to the jobs of a project, a pipeline or a stage. */
export const jobsBelow = (kind: 'project' | 'pipeline' | 'stage') =>
  batchedConnection((ctx, { statuses, retried, jobKind, whenExecuted, withArtifacts }: JobArguments) =>
    listJobsBelow(ctx, kind, {
      ...{ statuses, retried, kinds: jobKind ? [jobKind] : null },
      ...{ when: whenExecuted, with_artifacts: withArtifacts },
    }),
  );
const pipelineJobs = jobsBelow('pipeline');
const stageJobs = jobsBelow('stage');

PipelineRef.implement({
  description: 'A pipeline: the jobs that ran for a commit.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::Pipeline', id) }),
    iid: t.string({ nullable: false, resolve: ({ iid }) => String(iid) }),
    name: t.exposeString('name'),
    sha: t.exposeString('sha'),
    beforeSha: t.string({
      description: 'Zeros if there is no commit before it.',
      resolve: ({ before_sha }) => before_sha ?? ZERO_OID,
    }),
    ref: t.exposeString('ref'),
    status: t.field({ type: PipelineStatusEnum, nullable: false, resolve: statusOf }),
    detailedStatus: t.field({
      type: DetailedStatusRef,
      nullable: false,
      resolve: async (row, _args, ctx) =>
        detailedStatus(statusOf(row), pipelinePath(row), (await loadSummary(ctx, row.id))?.has_warnings),
    }),
    configSource: t.exposeString('config_source'),
    source: t.exposeString('source'),
    duration: t.exposeInt('duration', { description: 'Seconds.' }),
    queuedDuration: t.field({ type: 'Duration', resolve: queuedSeconds }),
    coverage: t.float({
      resolve: async (row, _args, ctx) => row.coverage ?? (await loadSummary(ctx, row.id))?.coverage ?? null,
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    startedAt: t.expose('started_at', { type: 'Time' }),
    finishedAt: t.expose('finished_at', { type: 'Time' }),
    committedAt: t.expose('committed_at', { type: 'Time' }),
    complete: t.boolean({ nullable: false, resolve: isComplete }),
    active: t.boolean({ nullable: false, resolve: isActive }),
    warnings: t.boolean({
      nullable: false,
      resolve: async ({ id }, _args, ctx) => (await loadSummary(ctx, id))?.has_warnings ?? false,
    }),
    yamlErrors: t.boolean({ nullable: false, resolve: ({ yaml_errors }) => yaml_errors !== null }),
    yamlErrorMessages: t.exposeString('yaml_errors'),
    failureReason: t.exposeString('failure_reason'),
    totalJobs: t.int({
      nullable: false,
      resolve: async ({ id }, _args, ctx) => (await loadSummary(ctx, id))?.total_jobs ?? 0,
    }),
    path: t.string({ resolve: pipelinePath }),
    webUrl: t.string({ nullable: false, resolve: (row, _args, ctx) => pipelineWebUrl(ctx, row) }),
    user: t.field({
      type: UserRef,
      resolve: ({ user_id }, _args, ctx) => (user_id === null ? null : loadUser(ctx, user_id)),
    }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
    stages: t.connection(
      {
        type: StageRef,
        extensions: { usualSize: 5 },
        resolve: (pipeline, args, ctx, info) =>
          connection(args, info, async (page) => {
            const stages = (await loadStages(ctx, pipeline.id)) ?? [];
            return pageOfAll(
              page,
              stages.map((stage) => ({ ...stage, pipeline })),
              (stage) => [stage.position, stage.id],
            );
          }),
      },
      StageConnection,
    ),
    job: t.field({
      type: JobRef,
      description: 'Selected by id or name. By name, the newest, which replaces those before it.',
      args: { id: t.arg({ type: 'JobID' }), name: t.arg.string() },
      resolve: async ({ id: pipelineId }, { id, name }, ctx) => {
        if ((id == null) === (name == null)) throw badRequest('one of id and name must be given');
        if (name != null) return loadNewestJob(ctx, `${pipelineId} ${name}`);
        const job = id == null ? null : await loadJob(ctx, id);
        return job?.pipeline_id === pipelineId && job.kind !== 'generic_commit_status' ? job : null;
      },
    }),
    jobs: t.connection(
      {
        type: JobRef,
        extensions: { usualSize: 20 },
        args: {
          statuses: t.arg({ type: [CiJobStatus] }),
          retried: t.arg.boolean(),
          jobKind: t.arg({ type: CiJobKind }),
          whenExecuted: t.arg.stringList({ description: 'The `when` of the CI file, such as `manual`.' }),
        },
        resolve: ({ id }, args, ctx, info) => pipelineJobs(id, args, ctx, info),
      },
      JobConnection,
    ),
  }),
});

StageRef.implement({
  description: 'A stage of a pipeline: jobs that may run at the same time.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::Stage', id) }),
    name: t.exposeString('name'),
    status: t.exposeString('status'),
    detailedStatus: t.field({
      type: DetailedStatusRef,
      resolve: async (stage, _args, ctx) => {
        const hasWarnings = stage.status === 'success' && (await loadWarnings(ctx, stage.id)) !== null;
        return detailedStatus(statusOf(stage), pipelinePath(stage.pipeline), hasWarnings);
      },
    }),
    jobs: t.connection(
      {
        type: JobRef,
        extensions: { usualSize: 10 },
        resolve: ({ id }, args, ctx, info) => stageJobs(id, args, ctx, info),
      },
      JobConnection,
    ),
  }),
});

JobRef.implement({
  description: 'A job of a pipeline.',
  fields: (t) => ({
    id: t.id({ resolve: (job) => gid(job.kind === 'bridge' ? 'Ci::Bridge' : 'Ci::Build', job.id) }),
    name: t.exposeString('name'),
    kind: t.field({
      type: CiJobKind,
      nullable: false,
      resolve: ({ kind }) => (kind === 'bridge' ? 'bridge' : 'build'),
    }),
    status: t.field({ type: CiJobStatus, resolve: statusOf }),
    detailedStatus: t.field({ type: DetailedStatusRef, resolve: shownStatus }),
    stage: t.field({
      type: StageRef,
      resolve: async ({ stage_id, pipeline_id }, _args, ctx) => {
        if (stage_id === null) return null;
        const [stage, pipeline] = await Promise.all([loadStage(ctx, stage_id), loadPipeline(ctx, pipeline_id)]);
        return stage && pipeline && { ...stage, pipeline };
      },
    }),
    allowFailure: t.exposeBoolean('allow_failure', { nullable: false }),
    active: t.boolean({ nullable: false, resolve: isActive }),
    scheduled: t.boolean({ nullable: false, resolve: ({ status }) => status === 'scheduled' }),
    manualJob: t.boolean({ resolve: ({ status }) => status === 'manual' }),
    retried: t.exposeBoolean('retried'),
    createdByTag: t.exposeBoolean('tag', { nullable: false }),
    coverage: t.exposeFloat('coverage'),
    duration: t.int({
      description: 'Seconds.',
      resolve: (job, _args, ctx) => {
        const seconds = jobDuration(ctx, job);
        return seconds === null ? null : Math.round(seconds);
      },
    }),
    queuedDuration: t.field({
      type: 'Duration',
      resolve: ({ queued_at, started_at }) => secondsBetween(queued_at, started_at),
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    queuedAt: t.expose('queued_at', { type: 'Time' }),
    startedAt: t.expose('started_at', { type: 'Time' }),
    finishedAt: t.expose('finished_at', { type: 'Time' }),
    erasedAt: t.expose('erased_at', { type: 'Time' }),
    refName: t.exposeString('ref'),
    shortSha: t.string({ nullable: false, resolve: ({ sha }) => (sha ?? '').slice(0, 8) }),
    failureMessage: t.exposeString('failure_reason'),
    schedulingType: t.exposeString('scheduling_type'),
    webPath: t.string({ resolve: jobPath }),
    webUrl: t.string({ nullable: false, resolve: (job, _args, ctx) => jobWebUrl(ctx, job) }),
    pipeline: t.field({ type: PipelineRef, resolve: ({ pipeline_id }, _args, ctx) => loadPipeline(ctx, pipeline_id) }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
  }),
});
