import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { commitRecord, toCommit } from '#domains/repositories/record.ts';
import { managersByIds } from '#domains/runners/manager-queries.ts';
import { runnersByIds } from '#domains/runners/queries.ts';
import { jobRunnerRecord, toJobRunner } from '#domains/runners/record.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { isoTime } from '#platform/time.ts';
import { archivedBefore, isArchived } from './archived.ts';
import { artifactsOfJobs, type JobArtifact } from './artifacts-of-jobs.ts';
import { visibleDownstream } from './family.ts';
import {
  detailedStatus,
  jobDuration,
  jobWebUrl,
  pipelinePath,
  pipelineWebUrl,
  queuedSeconds,
  secondsBetween,
  statusOf,
} from './model.ts';
import { type JobRow, type PipelineRow, pipelineSummariesByIds, pipelinesByIds } from './queries.ts';

const basic = {
  id: z.int(),
  iid: z.int(),
  project_id: z.int(),
  sha: z.string().nullable(),
  ref: z.string().nullable(),
  status: z.string(),
  source: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  web_url: z.string(),
};

/** A pipeline inside other records. */
export const pipelineBasicRecord = z.object(basic).meta({ id: 'PipelineBasic' });

export const pipelineListRecord = z.object({ ...basic, name: z.string().nullable() }).meta({ id: 'PipelineListed' });

const detailedStatusRecord = z
  .object({
    icon: z.string(),
    text: z.string(),
    label: z.string(),
    group: z.string(),
    tooltip: z.string(),
    has_details: z.boolean(),
    details_path: z.string(),
    illustration: z.null(),
    favicon: z.string(),
  })
  .meta({ id: 'DetailedStatus' });

export const pipelineRecord = z
  .object({
    ...basic,
    name: z.string().nullable(),
    before_sha: z.string().describe('Zeros if there is no commit before it.'),
    tag: z.boolean(),
    yaml_errors: z.string().nullable(),
    user: userBasicRecord.nullable(),
    started_at: z.string().nullable(),
    finished_at: z.string().nullable(),
    committed_at: z.string().nullable(),
    duration: z.int().nullable(),
    queued_duration: z.int().nullable(),
    coverage: z.string().nullable(),
    detailed_status: detailedStatusRecord,
  })
  .meta({ id: 'Pipeline' });

export const toPipelineBasic = (ctx: Context, row: PipelineRow): z.output<typeof pipelineBasicRecord> => ({
  id: row.id,
  iid: row.iid,
  project_id: row.project_id,
  sha: row.sha,
  ref: row.ref,
  status: row.status,
  source: row.source,
  created_at: isoTime(row.created_at),
  updated_at: isoTime(row.updated_at),
  web_url: pipelineWebUrl(ctx, row),
});

export const toPipelineListed = (ctx: Context, row: PipelineRow): z.output<typeof pipelineListRecord> => ({
  ...toPipelineBasic(ctx, row),
  name: row.name,
});

/** Returns the full record, with the summary of its jobs. */
export const toPipeline = async (ctx: Context, row: PipelineRow): Promise<z.output<typeof pipelineRecord>> => {
  const [users, summaries] = await Promise.all([
    userBasicsByIds(ctx, [row.user_id]),
    pipelineSummariesByIds(ctx, [row.id]),
  ]);
  const summary = summaries.get(row.id);
  const coverage = row.coverage ?? summary?.coverage ?? null;
  return {
    ...toPipelineListed(ctx, row),
    before_sha: row.before_sha ?? ZERO_OID,
    tag: row.tag,
    yaml_errors: row.yaml_errors,
    user: users.get(row.user_id) ?? null,
    started_at: isoTime(row.started_at),
    finished_at: isoTime(row.finished_at),
    committed_at: isoTime(row.committed_at),
    duration: row.duration,
    queued_duration: queuedSeconds(row),
    coverage: coverage === null ? null : coverage.toFixed(2),
    detailed_status: {
      ...detailedStatus(statusOf(row), pipelinePath(row), summary?.has_warnings),
      // There are no pages with illustrations, and one icon for all.
      illustration: null,
      favicon: '/favicon.ico',
    },
  };
};

const jobShape = {
  id: z.int(),
  name: z.string(),
  stage: z.string().nullable(),
  status: z.string(),
  ref: z.string().nullable(),
  tag: z.boolean(),
  coverage: z.number().nullable(),
  allow_failure: z.boolean(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
  erased_at: z.string().nullable(),
  duration: z.number().nullable(),
  queued_duration: z.number().nullable(),
  user: userBasicRecord.nullable(),
  commit: commitRecord.nullable(),
  pipeline: pipelineBasicRecord,
  failure_reason: z.string().optional(),
  web_url: z.string(),
  project: z.object({ ci_job_token_scope_enabled: z.boolean() }),
};

export const jobRecord = z
  .object({
    ...jobShape,
    artifacts: z.array(
      z.object({ file_type: z.string(), size: z.int(), filename: z.string(), file_format: z.string().nullable() }),
    ),
    artifacts_file: z.object({ filename: z.string(), size: z.int() }).optional(),
    runner: jobRunnerRecord.nullable(),
    runner_manager: z.object({ id: z.int(), system_id: z.string() }).nullable(),
    artifacts_expire_at: z.string().nullable(),
    archived: z.boolean(),
    tag_list: z.array(z.string()),
  })
  .meta({ id: 'Job' });

export const bridgeRecord = z
  .object({ ...jobShape, downstream_pipeline: pipelineBasicRecord.nullable() })
  .meta({ id: 'Bridge' });

type Job = z.output<typeof jobRecord>;

/** Returns the jobs of one project, with all related data read at once. Commits require access to the code. */
export const toJobs = async (ctx: Context, project: ProjectRow, rows: readonly JobRow[]): Promise<Job[]> => {
  const [shapes, before, runners, managers, artifacts] = await Promise.all([
    toJobShapes(ctx, project, rows),
    archivedBefore(ctx),
    runnersByIds(ctx, [...new Set(rows.flatMap(({ runner_id }) => runner_id ?? []))]),
    managersByIds(ctx, [...new Set(rows.flatMap(({ runner_manager_id }) => runner_manager_id ?? []))]),
    artifactsOfJobs(
      ctx,
      rows.map(({ id }) => id),
    ),
  ]);
  return shapes.map(({ row, shape }) => {
    const runner = runners.get(row.runner_id ?? 0);
    const manager = managers.get(row.runner_manager_id ?? 0);
    return {
      ...shape,
      ...toArtifacts(artifacts.get(row.id) ?? []),
      runner: runner ? toJobRunner(runner) : null,
      // Without its address: people who read the job need not see the runner.
      runner_manager: manager ? { id: manager.id, system_id: manager.system_id } : null,
      artifacts_expire_at: isoTime((artifacts.get(row.id)?.[0] ?? { expire_at: row.artifacts_expire_at }).expire_at),
      archived: isArchived(row, before),
      tag_list: row.tags,
    };
  });
};

/** The archive is also shown by itself. */
const toArtifacts = (artifacts: readonly JobArtifact[]): Pick<Job, 'artifacts' | 'artifacts_file'> => {
  const archive = artifacts.find(({ file_type }) => file_type === 'archive');
  return {
    artifacts: artifacts.map(({ file_type, size, filename, file_format }) => ({
      file_type,
      size,
      filename,
      file_format,
    })),
    ...(archive ? { artifacts_file: { filename: archive.filename, size: archive.size } } : {}),
  };
};

export const toBridges = async (
  ctx: Context,
  project: ProjectRow,
  rows: readonly JobRow[],
): Promise<z.output<typeof bridgeRecord>[]> => {
  const [shapes, downstream] = await Promise.all([
    toJobShapes(ctx, project, rows),
    visibleDownstream(
      ctx,
      rows.map(({ id }) => id),
    ),
  ]);
  return shapes.map(({ row, shape }) => {
    const pipeline = downstream.get(row.id);
    return { ...shape, downstream_pipeline: pipeline ? toPipelineBasic(ctx, pipeline) : null };
  });
};

const toJobShapes = async (ctx: Context, project: ProjectRow, rows: readonly JobRow[]) => {
  const shas = [...new Set(rows.flatMap(({ sha }) => (sha && /^[0-9a-f]{40}$/.test(sha) ? sha : [])))];
  const [users, pipelines, commits] = await Promise.all([
    userBasicsByIds(
      ctx,
      rows.map(({ user_id }) => user_id),
    ),
    pipelinesByIds(ctx, [...new Set(rows.map(({ pipeline_id }) => pipeline_id))]),
    shas.length > 0 && can(ctx, project, 'read_code') ? ctx.services.git.readCommits(project.disk_path, shas) : [],
  ]);
  const commitById = new Map(commits.map((commit) => [commit.id, commit]));
  return rows.flatMap((row) => {
    const pipeline = pipelines.get(row.pipeline_id);
    const commit = commitById.get(row.sha ?? '');
    // Without a pipeline, the job has been deleted.
    if (!pipeline) return [];
    const shape: z.output<z.ZodObject<typeof jobShape>> = {
      id: row.id,
      name: row.name,
      stage: row.stage,
      status: row.status,
      ref: row.ref ?? pipeline.ref,
      tag: row.tag,
      coverage: row.coverage,
      allow_failure: row.allow_failure,
      created_at: isoTime(row.created_at),
      started_at: isoTime(row.started_at),
      finished_at: isoTime(row.finished_at),
      erased_at: isoTime(row.erased_at),
      duration: jobDuration(ctx, row),
      queued_duration: secondsBetween(row.queued_at, row.started_at),
      user: users.get(row.user_id) ?? null,
      commit: commit ? toCommit(ctx, project, commit) : null,
      pipeline: toPipelineBasic(ctx, pipeline),
      ...(row.failure_reason === null ? {} : { failure_reason: row.failure_reason }),
      web_url: jobWebUrl(ctx, row),
      project: { ci_job_token_scope_enabled: project.ci_job_token_scope_enabled },
    };
    return { row, shape };
  });
};

export const commitStatusRecord = z
  .object({
    id: z.int(),
    sha: z.string().nullable(),
    ref: z.string().nullable(),
    status: z.string(),
    name: z.string(),
    target_url: z.string().nullable(),
    description: z.string().nullable(),
    created_at: z.string(),
    started_at: z.string().nullable(),
    finished_at: z.string().nullable(),
    allow_failure: z.boolean(),
    coverage: z.number().nullable(),
    pipeline_id: z.int(),
    author: userBasicRecord.nullable(),
  })
  .meta({ id: 'CommitStatus' });

export const toCommitStatuses = async (
  ctx: Context,
  rows: readonly JobRow[],
): Promise<z.output<typeof commitStatusRecord>[]> => {
  const users = await userBasicsByIds(
    ctx,
    rows.map(({ user_id }) => user_id),
  );
  return rows.map((row) => {
    return {
      id: row.id,
      sha: row.sha,
      ref: row.ref,
      status: row.status,
      name: row.name,
      target_url: row.target_url,
      description: row.description,
      created_at: isoTime(row.created_at),
      started_at: isoTime(row.started_at),
      finished_at: isoTime(row.finished_at),
      allow_failure: row.allow_failure,
      coverage: row.coverage,
      pipeline_id: row.pipeline_id,
      author: users.get(row.user_id) ?? null,
    };
  });
};
