import { nameWithNamespace } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { type HookedProject, hookProjectCore, hookPushRepository } from '#domains/projects/webhook.ts';
import { hookCommit } from '#domains/repositories/webhook.ts';
import { isBlocked } from '#domains/users/model.ts';
import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import type { Commit } from '#platform/git/objects.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { hookTime, isoTime } from '#platform/time.ts';
import type { JobPayload, PipelinePayload } from './events.ts';
import { type HookRelatives, hookRelatives, type PipelineDetails, pipelineDetails } from './hook-relatives.ts';
import { listJobsBelow } from './job-lists.ts';
import {
  detailedStatus,
  jobDuration,
  pipelinePath,
  pipelineWebUrl,
  queuedSeconds,
  secondsBetween,
  statusOf,
} from './model.ts';
import { countRetries, type JobRow, type PipelineRow, pipelinesByIds } from './queries.ts';

/** The columns of a pipeline and a job that hook bodies use. */
export type HookedPipeline = Pick<
  PipelineRow,
  | 'id'
  | 'iid'
  | 'name'
  | 'ref'
  | 'tag'
  | 'sha'
  | 'before_sha'
  | 'source'
  | 'status'
  | 'created_at'
  | 'started_at'
  | 'finished_at'
  | 'duration'
  | 'project_path'
>;
export type HookedJob = Pick<
  JobRow,
  | 'id'
  | 'name'
  | 'stage'
  | 'status'
  | 'ref'
  | 'tag'
  | 'created_at'
  | 'queued_at'
  | 'started_at'
  | 'finished_at'
  | 'allow_failure'
  | 'failure_reason'
  | 'environment'
> &
  Partial<Pick<JobRow, 'run_when' | 'runner_id' | 'user_id'>>;

/** The data for hook bodies of jobs and pipelines. */
export interface PipelineFacts {
  readonly pipeline: HookedPipeline;
  readonly project: HookedProject;
  readonly user: UserSummary | null;
  readonly commit: Commit | null;
  /** The rest is absent in samples. */
  readonly relatives?: HookRelatives | undefined;
  readonly details?: PipelineDetails | undefined;
}

/** The body of job events (reference: webhooks §3). `retries` is the number of retries of the job. */
export const jobBody = (
  ctx: Context,
  { pipeline, project, user, commit, relatives }: PipelineFacts,
  job: HookedJob,
  retries = 0,
): Record<string, unknown> => {
  const ref = relatives?.merge_request?.source_branch ?? job.ref ?? pipeline.ref;
  return {
    object_kind: 'build',
    ref,
    tag: job.tag,
    before_sha: pipeline.before_sha ?? ZERO_OID,
    sha: pipeline.sha,
    build_id: job.id,
    build_name: job.name,
    build_stage: job.stage,
    build_status: job.status,
    ...twins('build_created_at', job.created_at),
    ...twins('build_started_at', job.started_at),
    ...twins('build_finished_at', job.finished_at),
    build_duration: jobDuration(ctx, job),
    build_queued_duration: secondsBetween(job.queued_at, job.started_at),
    build_allow_failure: job.allow_failure,
    ...(job.status === 'failed' ? { build_failure_reason: job.failure_reason ?? 'unknown_failure' } : {}),
    retries_count: retries,
    pipeline_id: pipeline.id,
    runner: relatives?.runners.get(job.runner_id ?? 0) ?? null,
    project_id: project.id,
    project_name: nameWithNamespace(project),
    user: user && hookUser(ctx, user),
    commit: {
      id: pipeline.id,
      name: pipeline.name,
      sha: pipeline.sha,
      message: commit?.message ?? null,
      author_name: commit?.author_name ?? null,
      author_email: commit?.author_email ?? null,
      author_url: commit ? `mailto:${commit.author_email}` : null,
      status: pipeline.status,
      duration: pipeline.duration,
      ...twins('started_at', pipeline.started_at),
      ...twins('finished_at', pipeline.finished_at),
    },
    repository: hookPushRepository(ctx, project),
    project: hookProjectCore(ctx, project),
    environment: environmentOf(job, relatives),
    source_pipeline: relatives?.source_pipeline ?? null,
  };
};

/** The body of pipeline events (reference: webhooks §3). */
export const pipelineBody = (
  ctx: Context,
  { pipeline, project, user, commit, relatives, details }: PipelineFacts,
  jobs: readonly HookedJob[],
): Record<string, unknown> => ({
  object_kind: 'pipeline',
  object_attributes: {
    id: pipeline.id,
    iid: pipeline.iid,
    name: pipeline.name,
    ref: relatives?.merge_request?.source_branch ?? pipeline.ref,
    protected_ref: relatives?.protected ?? false,
    tag: pipeline.tag,
    sha: pipeline.sha,
    before_sha: pipeline.before_sha ?? ZERO_OID,
    source: pipeline.source,
    status: pipeline.status,
    detailed_status: detailedStatus(statusOf(pipeline), pipelinePath(pipeline), details?.has_warnings).label,
    stages: details?.stages ?? [...new Set(jobs.flatMap(({ stage }) => stage ?? []))],
    created_at: hookTime(pipeline.created_at),
    finished_at: hookTime(pipeline.finished_at),
    duration: pipeline.duration,
    queued_duration: queuedSeconds(pipeline),
    variables: (relatives?.variables ?? []).map(({ key, value }) => ({ key, value })),
    url: pipelineWebUrl(ctx, pipeline),
  },
  merge_request: relatives?.merge_request ?? null,
  user: user && hookUser(ctx, user),
  project: hookProjectCore(ctx, project),
  commit: commit && hookCommit(ctx, project, commit),
  builds: jobs.map((job) => ({
    id: job.id,
    stage: job.stage,
    name: job.name,
    status: job.status,
    created_at: hookTime(job.created_at),
    started_at: hookTime(job.started_at),
    finished_at: hookTime(job.finished_at),
    duration: jobDuration(ctx, job),
    queued_duration: secondsBetween(job.queued_at, job.started_at),
    failure_reason: job.status === 'failed' ? job.failure_reason : null,
    when: job.run_when ?? 'on_success',
    manual: job.run_when === 'manual' || job.status === 'manual',
    allow_failure: job.allow_failure,
    user: hookUserOf(ctx, relatives?.people.get(job.user_id ?? 0) ?? user),
    runner: relatives?.runners.get(job.runner_id ?? 0) ?? null,
    artifacts_file: relatives?.archives.get(job.id) ?? { filename: null, size: null },
    environment: environmentOf(job, relatives),
  })),
  ...(relatives?.source_pipeline ? { source_pipeline: relatives.source_pipeline } : {}),
});

const environmentOf = ({ id, environment: name }: HookedJob, relatives: HookRelatives | undefined) =>
  name === null ? null : { name, ...(relatives?.environments.get(id) ?? { action: null, deployment_tier: null }) };

const hookUserOf = (ctx: Context, user: UserSummary | null) => user && hookUser(ctx, user);

const twins = (name: string, time: string | null) => ({ [name]: hookTime(time), [`${name}_iso`]: isoTime(time) });

const MAX_BUILDS = 1_000;

/**
 * The body of a pipeline event, with its builds but without reported statuses. Null if the pipeline is of a blocked user
 * (reference: webhooks §3).
 */
export const pipelineEventBody = async (
  ctx: Context,
  event: Pick<EventRow, 'project_id'>,
  pipeline: PipelinePayload,
): Promise<Record<string, unknown> | null> => {
  const project = event.project_id === null ? null : await findProject(ctx, { id: event.project_id });
  if (!project) return null;
  const [people, [commit = null], jobs] = await Promise.all([
    userSummariesByIds(ctx, [pipeline.user_id]),
    ctx.services.git.readCommits(project.disk_path, pipeline.sha === null ? [] : [pipeline.sha]),
    listJobsBelow(ctx, 'pipeline', { kinds: ['build'], retried: false }).rows([pipeline.id], { limit: MAX_BUILDS }),
  ]);
  const user = people.get(pipeline.user_id ?? 0) ?? null;
  if (user && isBlocked(user)) return null;
  const builds = jobs.get(pipeline.id) ?? [];
  const facts = {
    pipeline: { ...pipeline, project_path: project.full_path },
    project,
    user,
    commit,
    relatives: await hookRelatives(ctx, pipeline.id, builds),
    details: await pipelineDetails(ctx, pipeline.id),
  };
  return pipelineBody(ctx, facts, builds);
};

/** The body of a job event. Null if the job is gone, or is of a blocked user (reference: webhooks §3). */
export const jobEventBody = async (
  ctx: Context,
  event: Pick<EventRow, 'project_id'>,
  job: JobPayload,
): Promise<Record<string, unknown> | null> => {
  const [project, pipelines, people, retries, relatives] = await Promise.all([
    event.project_id === null ? null : findProject(ctx, { id: event.project_id }),
    pipelinesByIds(ctx, [job.pipeline_id]),
    userSummariesByIds(ctx, [job.user_id]),
    countRetries(ctx, job),
    hookRelatives(ctx, job.pipeline_id, [job]),
  ]);
  const pipeline = pipelines.get(job.pipeline_id);
  const user = people.get(job.user_id ?? 0) ?? null;
  if (!project || !pipeline || (user && isBlocked(user))) return null;
  const commits = await ctx.services.git.readCommits(project.disk_path, pipeline.sha === null ? [] : [pipeline.sha]);
  return jobBody(ctx, { pipeline, project, user, commit: commits[0] ?? null, relatives }, job, retries);
};
