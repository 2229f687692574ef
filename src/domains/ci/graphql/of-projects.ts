import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { ROW } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { orNull } from '#graphql/errors.ts';
import { badRequest } from '#platform/errors.ts';
import { type CreationRequest, findCreationRequest, REQUEST_STATUSES } from '../creation/requests.ts';
import {
  CiJobKind,
  CiJobStatus,
  JobConnection,
  JobRef,
  jobsBelow,
  loadPipeline,
  PipelineConnection,
  PipelineRef,
  PipelineStatusEnum,
} from '../graphql.ts';
import { type CiStatus, PIPELINE_SCOPES, type PipelineScope } from '../model.ts';
import { findLatestPipeline, getJob, getPipeline, listPipelinesBelow, type PipelineFilter } from '../queries.ts';

// The pipelines and jobs of projects.

const CreationStatus = builder.enumType('CiPipelineCreationStatus', { values: upperCase(REQUEST_STATUSES) });

const CreationRequestRef = builder.objectRef<CreationRequest>('CiPipelineCreationRequest');
CreationRequestRef.implement({
  description: 'A request for a pipeline that is created in the background, and its outcome.',
  fields: (t) => ({
    id: t.string({ nullable: false, resolve: ({ id }) => id }),
    status: t.field({ type: CreationStatus, nullable: false, resolve: ({ status }) => status }),
    error: t.exposeString('error', { description: 'Why there is no pipeline.' }),
    pipelineId: t.field({ type: 'CiPipelineID', resolve: ({ pipeline_id }) => pipeline_id }),
    pipeline: t.field({
      type: PipelineRef,
      resolve: ({ pipeline_id }, _args, ctx) => (pipeline_id === null ? null : loadPipeline(ctx, pipeline_id)),
    }),
  }),
});

projectField('ciPipelineCreationRequest', ROW, (t) =>
  t.field({
    type: CreationRequestRef,
    description:
      'What became of a `pipelineCreate` with `async`. Requests are kept for a day. Only for those who may create pipelines.',
    args: { requestId: t.arg.string({ required: true }) },
    resolve: (project, { requestId }, ctx) => findCreationRequest(ctx, project, requestId),
  }),
);

const PipelineScopeEnum = builder.enumType('PipelineScopeEnum', { values: upperCase(PIPELINE_SCOPES) });
const projectJobs = jobsBelow('project');

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
      if ([id, iid, sha].filter((given) => given != null).length > 1) {
        throw badRequest('only one of id, iid and sha can be given');
      }
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
      args: {
        statuses: t.arg({ type: [CiJobStatus] }),
        jobKind: t.arg({ type: CiJobKind }),
        withArtifacts: t.arg.boolean({ description: 'True: only jobs that left files.' }),
      },
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
