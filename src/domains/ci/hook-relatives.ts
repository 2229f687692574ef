import { sql } from 'kysely';
import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';
import { webUrl } from '#platform/urls.ts';
import { artifactsOfJobs } from './artifacts-of-jobs.ts';
import type { PipelineVariable } from './creation/insert.ts';
import { pipelineVariables } from './pipeline-variables.ts';
import { pipelineSummariesByIds, pipelinesByIds, stagesByPipelineIds } from './queries.ts';

/** A merge request in the bodies of pipeline events (reference: webhooks §3). */
export interface HookedMergeRequest {
  readonly id: number;
  readonly iid: number;
  readonly title: string;
  readonly source_branch: string;
  readonly source_project_id: number | null;
  readonly target_branch: string;
  readonly target_project_id: number;
  readonly state: string;
  readonly merge_status: string;
  readonly detailed_merge_status: string;
  readonly url: string;
}

/** Describes a merge request. Null if it is gone. */
export const describeMergeRequest = definePort<Context, [id: number], Promise<HookedMergeRequest | null>>(
  'ci.describeMergeRequest',
);

/** The parts of hook bodies about a pipeline that its row and its jobs lack. */
export interface HookRelatives {
  readonly protected: boolean;
  readonly variables: readonly PipelineVariable[];
  readonly merge_request: HookedMergeRequest | null;
  /** The pipeline whose bridge started this one. */
  readonly source_pipeline: Record<string, unknown> | null;
  /** By id. */
  readonly runners: ReadonlyMap<number, Record<string, unknown>>;
  readonly people: ReadonlyMap<number, UserSummary>;
  /** By job. */
  readonly archives: ReadonlyMap<number, HookedArchive>;
  /** By job. */
  readonly environments: ReadonlyMap<number, HookedEnvironment>;
}

interface HookedArchive {
  readonly filename: string;
  /** Bytes. */
  readonly size: number;
}

interface HookedEnvironment {
  readonly action: string | null;
  readonly deployment_tier: string | null;
}

/** Returns what the bodies of hooks say about the pipeline and these jobs of it. Undefined if the pipeline is gone. */
export const hookRelatives = async (
  ctx: Context,
  pipelineId: number,
  jobs: readonly {
    readonly id: number;
    readonly runner_id: number | null;
    readonly user_id: number | null;
    readonly environment: string | null;
  }[],
): Promise<HookRelatives | undefined> => {
  const pipeline = (await pipelinesByIds(ctx, [pipelineId])).get(pipelineId);
  if (!pipeline) return undefined;
  const { merge_request_id } = pipeline;
  const [variables, merge_request, source_pipeline, runners, people, archives, environments] = await Promise.all([
    pipelineVariables(ctx, pipelineId).then((found) => found.map((each) => ({ ...each, value: each.value ?? '' }))),
    merge_request_id === null ? null : describeMergeRequest(ctx, merge_request_id),
    sourceOf(ctx, pipeline.bridge_job_id),
    runnersByIds(ctx, [...new Set(jobs.flatMap(({ runner_id }) => runner_id ?? []))]),
    userSummariesByIds(
      ctx,
      jobs.map(({ user_id }) => user_id),
    ),
    archivesOf(
      ctx,
      jobs.map(({ id }) => id),
    ),
    environmentsOf(
      ctx,
      jobs.flatMap(({ id, environment }) => (environment === null ? [] : id)),
    ),
  ]);
  const ofJobs = { runners, people, archives, environments };
  return { protected: pipeline.protected, variables, merge_request, source_pipeline, ...ofJobs };
};

/** What bodies of pipeline events say about all jobs of the pipeline. */
export interface PipelineDetails {
  /** The names of its stages, in their order. */
  readonly stages: readonly string[];
  /** Whether a job failed that was allowed to. */
  readonly has_warnings: boolean;
}

export const pipelineDetails = async (ctx: Pick<Context, 'db'>, pipelineId: number): Promise<PipelineDetails> => {
  const [stages, summaries] = await Promise.all([
    stagesByPipelineIds(ctx, [pipelineId]),
    pipelineSummariesByIds(ctx, [pipelineId]),
  ]);
  return {
    stages: (stages.get(pipelineId) ?? []).map(({ name }) => name),
    has_warnings: summaries.get(pipelineId)?.has_warnings ?? false,
  };
};

const archivesOf = async (ctx: Context, jobIds: readonly number[]): Promise<Map<number, HookedArchive>> =>
  new Map(
    [...(await artifactsOfJobs(ctx, jobIds))].flatMap(([id, [first]]) =>
      first?.file_type === 'archive' ? [[id, { filename: first.filename, size: first.size }] as const] : [],
    ),
  );

/** Environments are a domain above this one. The tier is that of the environment, once there is one. */
const environmentsOf = async (
  { db }: Pick<Context, 'db'>,
  jobIds: readonly number[],
): Promise<Map<number, HookedEnvironment>> => {
  if (jobIds.length === 0) return new Map();
  const { rows } = await sql<HookedEnvironment & { readonly id: number }>`
    select j.id, j.options -> 'environment' ->> 'action' as action,
      coalesce(e.tier, j.options -> 'environment' ->> 'deployment_tier') as deployment_tier
    from jobs j left join environments e on e.project_id = j.project_id and e.name = j.environment
    where j.id = any (${jobIds}::bigint[])`.execute(db);
  return new Map(rows.map(({ id, ...environment }) => [id, environment]));
};

const sourceOf = async (ctx: Context, bridgeId: number | null): Promise<Record<string, unknown> | null> => {
  if (bridgeId === null) return null;
  const row = await ctx.db
    .selectFrom('jobs')
    .innerJoin('projects', 'projects.id', 'jobs.project_id')
    .select(['jobs.pipeline_id', 'projects.id', 'projects.full_path'])
    .where('jobs.id', '=', bridgeId)
    .executeTakeFirst();
  if (!row) return null;
  const project = { id: row.id, web_url: webUrl(ctx, row.full_path), path_with_namespace: row.full_path };
  return { project, pipeline_id: row.pipeline_id, job_id: bridgeId };
};

const runnersByIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Record<string, unknown>>> => {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('runners')
    .select(['id', 'description', 'runner_type', 'paused', 'tags'])
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  return new Map(
    rows.map(({ id, description, runner_type, paused, tags }) => [
      id,
      { id, description, runner_type, active: !paused, is_shared: runner_type === 'instance_type', tags },
    ]),
  );
};
