import { JUDGED, loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { ROW } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
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
  PIPELINE_SCOPES,
  type PipelineScope,
  pipelinePath,
  pipelineWebUrl,
  secondsBetween,
  statusOf,
} from './model.ts';
import {
  findLatestPipeline,
  getJob,
  getPipeline,
  type JobRow,
  listJobsBelow,
  listPipelinesBelow,
  type PipelineFilter,
  type PipelineRow,
  pipelineSummariesByIds,
  pipelinesByIds,
  type StageRow,
  stagesByIds,
  stagesByPipelineIds,
} from './queries.ts';

/** Maps lower-case words to upper-case enum values. */
const upperCase = <const T extends string>(words: readonly T[]) => {
  const values: Record<string, { readonly value: T }> = {};
  for (const word of words) values[word.toUpperCase()] = { value: word };
  return values;
};

const PipelineStatusEnum = builder.enumType('PipelineStatusEnum', { values: upperCase(CI_STATUSES) });
const CiJobStatus = builder.enumType('CiJobStatus', { values: upperCase(CI_STATUSES) });
const PipelineScopeEnum = builder.enumType('PipelineScopeEnum', { values: upperCase(PIPELINE_SCOPES) });
const CiJobKind = builder.enumType('CiJobKind', {
  values: { BUILD: { value: 'build' }, BRIDGE: { value: 'bridge' } } as const,
});

const loadPipeline: (ctx: Context, id: number) => Promise<PipelineRow | null> = loader(pipelinesByIds);
const loadSummary = loader(pipelineSummariesByIds);
const loadStages = loader(stagesByPipelineIds);
const loadStage = loader(stagesByIds);

const DetailedStatusRef = builder.objectRef<DetailedStatus>('DetailedStatus').implement({
  description: 'A status for display.',
  fields: (t) => ({
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

interface StageNode extends StageRow {
  readonly pipeline: PipelineRow;
}
const StageRef = builder.objectRef<StageNode>('CiStage');
const StageConnection = builder.connectionObject(
  { type: StageRef, name: 'CiStageConnection' },
  { name: 'CiStageEdge' },
);

const JobRef = builder.objectRef<JobRow>('CiJob');
const JobConnection = builder.connectionObject({ type: JobRef, name: 'CiJobConnection' }, { name: 'CiJobEdge' });

interface JobArguments extends ConnectionArguments {
  readonly statuses?: readonly CiStatus[] | null | undefined;
  readonly retried?: boolean | null | undefined;
  readonly jobKind?: JobKind | null | undefined;
}

const jobsBelow = (kind: 'project' | 'pipeline' | 'stage') =>
  batchedConnection((ctx, { statuses, retried, jobKind }: JobArguments) =>
    listJobsBelow(ctx, kind, { statuses, retried, kinds: jobKind ? [jobKind] : null }),
  );
const projectJobs = jobsBelow('project');
const pipelineJobs = jobsBelow('pipeline');
const stageJobs = jobsBelow('stage');

PipelineRef.implement({
  description: 'A pipeline: the jobs that ran for a commit.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::Pipeline', id) }),
    iid: t.string({ nullable: false, resolve: ({ iid }) => String(iid) }),
    name: t.exposeString('name'),
    sha: t.exposeString('sha'),
    beforeSha: t.exposeString('before_sha'),
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
    queuedDuration: t.field({
      type: 'Duration',
      resolve: ({ created_at, started_at }) => secondsBetween(created_at, started_at),
    }),
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
    jobs: t.connection(
      {
        type: JobRef,
        args: {
          statuses: t.arg({ type: [CiJobStatus] }),
          retried: t.arg.boolean(),
          jobKind: t.arg({ type: CiJobKind }),
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
      resolve: (stage) => detailedStatus(statusOf(stage), pipelinePath(stage.pipeline)),
    }),
    jobs: t.connection(
      { type: JobRef, resolve: ({ id }, args, ctx, info) => stageJobs(id, args, ctx, info) },
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
    detailedStatus: t.field({ type: DetailedStatusRef, resolve: (job) => detailedStatus(statusOf(job), jobPath(job)) }),
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

interface PipelineArguments extends ConnectionArguments {
  readonly status?: CiStatus | null | undefined;
  readonly scope?: PipelineScope | null | undefined;
  readonly ref?: string | null | undefined;
  readonly sha?: string | null | undefined;
  readonly source?: string | null | undefined;
  readonly username?: string | null | undefined;
  readonly updatedAfter?: string | null | undefined;
  readonly updatedBefore?: string | null | undefined;
}

const projectPipelines = batchedConnection((ctx, args: PipelineArguments) => {
  const filter: PipelineFilter = {
    status: args.status,
    scope: args.scope,
    ref: args.ref,
    sha: args.sha,
    source: args.source,
    username: args.username,
    updated_after: args.updatedAfter,
    updated_before: args.updatedBefore,
  };
  return listPipelinesBelow(ctx, filter);
});

projectField('pipelines', JUDGED, (t) =>
  t.connection(
    {
      type: PipelineRef,
      args: {
        status: t.arg({ type: PipelineStatusEnum }),
        scope: t.arg({ type: PipelineScopeEnum }),
        ref: t.arg.string(),
        sha: t.arg.string(),
        source: t.arg.string(),
        username: t.arg.string(),
        updatedAfter: t.arg({ type: 'Time' }),
        updatedBefore: t.arg({ type: 'Time' }),
      },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_pipeline') ? projectPipelines(project.id, args, ctx, info) : null,
    },
    PipelineConnection,
  ),
);

projectField('pipeline', ROW, (t) =>
  t.field({
    type: PipelineRef,
    description: 'Selected by one of id, iid and commit. For a commit, the newest.',
    args: { id: t.arg({ type: 'CiPipelineID' }), iid: t.arg.id(), sha: t.arg.string() },
    resolve: (project, { id, iid, sha }, ctx) => {
      if (!can(ctx, project, 'read_pipeline')) return null;
      if (id != null) return orNull(getPipeline(ctx, project, id));
      const number = iid == null ? undefined : Number(iid);
      if (number === undefined && sha == null) return null;
      if (number !== undefined && !isIid(number)) return null;
      return findLatestPipeline(ctx, project, { iid: number, sha: sha ?? undefined });
    },
  }),
);

projectField('jobs', JUDGED, (t) =>
  t.connection(
    {
      type: JobRef,
      args: { statuses: t.arg({ type: [CiJobStatus] }), jobKind: t.arg({ type: CiJobKind }) },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_pipeline') ? projectJobs(project.id, args, ctx, info) : null,
    },
    JobConnection,
  ),
);

projectField('job', ROW, (t) =>
  t.field({
    type: JobRef,
    args: { id: t.arg({ type: 'JobID', required: true }) },
    resolve: (project, { id }, ctx) => (can(ctx, project, 'read_pipeline') ? orNull(getJob(ctx, project, id)) : null),
  }),
);

const isIid = (number: number): boolean => Number.isInteger(number) && number > 0 && number <= 2_147_483_647;
