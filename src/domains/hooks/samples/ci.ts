import { sql } from 'kysely';
import { hookRelatives, pipelineDetails } from '#domains/ci/hook-relatives.ts';
import { listJobsBelow } from '#domains/ci/job-lists.ts';
import { pipelinesByIds } from '#domains/ci/queries.ts';
import { type HookedJob, type HookedPipeline, jobBody, type PipelineFacts, pipelineBody } from '#domains/ci/webhook.ts';
import { findProject } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { newestIn, SAMPLE_PARENT, type Scene, sampleCommit, someProject } from './scene.ts';

type Body = Record<string, unknown>;

const MAX_JOBS = 1_000;

/** Returns the body for the newest job, or for a sample job. */
export const jobSample = async (scene: Scene): Promise<Body> => {
  const where = sql`t.kind = 'build'`;
  const found = await newestIn(scene, 'jobs', 'builds_access_level', { where });
  const { ctx } = scene;
  if (found) {
    const jobs = await listJobsBelow(ctx, 'project', { kinds: ['build'] }).rows([found.project_id], { limit: 1 });
    const [job] = jobs.get(found.project_id) ?? [];
    const facts = job && (await pipelineFacts(scene, job.pipeline_id));
    if (facts) return jobBody(ctx, { ...facts, relatives: await hookRelatives(ctx, job.pipeline_id, [job]) }, job);
  }
  const { facts, jobs } = await samplePipeline(scene);
  return jobBody(ctx, facts, jobs[0]);
};

/** Returns the body for the newest pipeline with its jobs, or for a sample pipeline. */
export const pipelineSample = async (scene: Scene): Promise<Body> => {
  const found = await newestIn(scene, 'pipelines', 'builds_access_level');
  const facts = found && (await pipelineFacts(scene, found.id));
  if (facts) {
    const { ctx } = scene;
    const newest = listJobsBelow(ctx, 'pipeline', { kinds: ['build'], retried: false });
    const jobs = (await newest.rows([found.id], { limit: MAX_JOBS })).get(found.id) ?? [];
    const relatives = await hookRelatives(ctx, found.id, jobs);
    return pipelineBody(ctx, { ...facts, relatives, details: await pipelineDetails(ctx, found.id) }, jobs);
  }
  const sample = await samplePipeline(scene);
  return pipelineBody(scene.ctx, sample.facts, sample.jobs);
};

const pipelineFacts = async ({ ctx }: Scene, id: number): Promise<PipelineFacts | null> => {
  const pipeline = (await pipelinesByIds(ctx, [id])).get(id);
  const project = pipeline && (await findProject(ctx, { id: pipeline.project_id }));
  if (!pipeline || !project) return null;
  const [people, [commit = null]] = await Promise.all([
    userSummariesByIds(ctx, [pipeline.user_id]),
    ctx.services.git.readCommits(
      project.disk_path,
      pipeline.sha && /^[0-9a-f]{40}$/.test(pipeline.sha) ? [pipeline.sha] : [],
    ),
  ]);
  return { pipeline, project, user: people.get(pipeline.user_id ?? 0) ?? null, commit };
};

const samplePipeline = async (
  scene: Scene,
): Promise<{ facts: PipelineFacts; jobs: readonly [HookedJob, ...HookedJob[]] }> => {
  const { caller, now } = scene;
  const project = await someProject(scene);
  const commit = sampleCommit(scene);
  const pipeline: HookedPipeline = {
    id: 0,
    iid: 1,
    name: null,
    ref: project.default_branch ?? 'main',
    tag: false,
    sha: commit.id,
    before_sha: SAMPLE_PARENT,
    source: 'push',
    status: 'success',
    created_at: now,
    started_at: now,
    finished_at: now,
    duration: 0,
    project_path: project.full_path,
  };
  const job: HookedJob = {
    id: 0,
    name: 'sample',
    stage: 'test',
    status: 'success',
    ref: pipeline.ref,
    tag: false,
    created_at: now,
    queued_at: now,
    started_at: now,
    finished_at: now,
    allow_failure: false,
    failure_reason: null,
    environment: null,
  };
  return { facts: { pipeline, project, user: caller, commit }, jobs: [job] };
};
