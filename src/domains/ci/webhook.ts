import { nameWithNamespace } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { type HookedProject, hookProjectCore, hookPushRepository } from '#domains/projects/webhook.ts';
import { hookCommit } from '#domains/repositories/webhook.ts';
import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import type { Commit } from '#platform/git/types.ts';
import { hookTime, isoTime } from '#platform/time.ts';
import type { PipelinePayload } from './events.ts';
import { detailedStatus, jobDuration, pipelinePath, pipelineWebUrl, secondsBetween, statusOf } from './model.ts';
import { type JobRow, listJobsBelow, type PipelineRow } from './queries.ts';

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
>;

/** The data for hook bodies of jobs and pipelines. */
export interface PipelineFacts {
  readonly pipeline: HookedPipeline;
  readonly project: HookedProject;
  readonly user: UserSummary | null;
  readonly commit: Commit | null;
}

/** The body of job events (reference: webhooks §3). `retries` is the number of retries of the job. */
export const jobBody = (
  ctx: Context,
  { pipeline, project, user, commit }: PipelineFacts,
  job: HookedJob,
  retries = 0,
): Record<string, unknown> => {
  const ref = job.ref ?? pipeline.ref;
  return {
    object_kind: 'build',
    ref,
    tag: job.tag,
    before_sha: pipeline.before_sha ?? NO_COMMIT,
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
    build_failure_reason: job.failure_reason ?? 'unknown_failure',
    retries_count: retries,
    pipeline_id: pipeline.id,
    runner: null,
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
    environment: job.environment === null ? null : { name: job.environment, action: null, deployment_tier: null },
    source_pipeline: null,
  };
};

/** The body of pipeline events (reference: webhooks §3). */
export const pipelineBody = (
  ctx: Context,
  { pipeline, project, user, commit }: PipelineFacts,
  jobs: readonly HookedJob[],
  mergeRequest: Record<string, unknown> | null = null,
): Record<string, unknown> => ({
  object_kind: 'pipeline',
  object_attributes: {
    id: pipeline.id,
    iid: pipeline.iid,
    name: pipeline.name,
    ref: pipeline.ref,
    tag: pipeline.tag,
    sha: pipeline.sha,
    before_sha: pipeline.before_sha ?? NO_COMMIT,
    source: pipeline.source,
    status: pipeline.status,
    detailed_status: detailedStatus(statusOf(pipeline), pipelinePath(pipeline)).label,
    stages: [...new Set(jobs.flatMap(({ stage }) => stage ?? []))],
    created_at: hookTime(pipeline.created_at),
    finished_at: hookTime(pipeline.finished_at),
    duration: pipeline.duration,
    queued_duration: secondsBetween(pipeline.created_at, pipeline.started_at),
    variables: [],
    url: pipelineWebUrl(ctx, pipeline),
  },
  merge_request: mergeRequest,
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
    failure_reason: job.failure_reason,
    when: 'on_success',
    manual: job.status === 'manual',
    allow_failure: job.allow_failure,
    user: user && hookUser(ctx, user),
    runner: null,
    artifacts_file: { filename: null, size: null },
    environment: job.environment === null ? null : { name: job.environment, action: null, deployment_tier: null },
  })),
});

const NO_COMMIT = '0'.repeat(40);

const twins = (name: string, time: string | null) => ({ [name]: hookTime(time), [`${name}_iso`]: isoTime(time) });

const MAX_BUILDS = 1_000;

/** The body of a pipeline event, with its builds but without reported statuses. */
export const pipelineEventBody = async (
  ctx: Context,
  event: Pick<EventRow, 'project_id'>,
  pipeline: PipelinePayload,
): Promise<Record<string, unknown> | null> => {
  const project = event.project_id === null ? null : await findProject(ctx, { id: event.project_id });
  if (!project) return null;
  const [people, [commit = null], jobs] = await Promise.all([
    userSummariesByIds(ctx, pipeline.user_id === null ? [] : [pipeline.user_id]),
    ctx.services.git.readCommits(project.disk_path, pipeline.sha === null ? [] : [pipeline.sha]),
    listJobsBelow(ctx, 'pipeline', { kinds: ['build'], retried: false }).rows([pipeline.id], { limit: MAX_BUILDS }),
  ]);
  const facts = {
    pipeline: { ...pipeline, project_path: project.full_path },
    project,
    user: people.get(pipeline.user_id ?? 0) ?? null,
    commit,
  };
  return pipelineBody(ctx, facts, jobs.get(pipeline.id) ?? []);
};
