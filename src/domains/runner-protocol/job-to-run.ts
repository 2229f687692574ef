import { sql } from 'kysely';
import { type Dependency, readDependencies } from '#domains/ci/dependencies.ts';
import { type GivenVariables, readGivenVariables } from '#domains/ci/given-variables.ts';
import { fullRef } from '#domains/ci/model.ts';
import { jobOptions } from '#domains/ci/options.ts';
import { outdatedDeployments } from '#domains/ci/outdated-deployments.ts';
import { type PredefinedVariable, predefinedVariablesOf } from '#domains/ci/predefined.ts';
import { type JobRow, jobsByIds, type PipelineRow, pipelinesByIds } from '#domains/ci/queries.ts';
import { pipelineRef } from '#domains/ci/refs.ts';
import type { CompiledJob, Tier } from '#domains/ci-config/model.ts';
import type { JobVariable } from '#domains/ci-variables/model.ts';
import { variablesForJobs } from '#domains/ci-variables/queries.ts';
import { tiersByJobIds } from '#domains/environments/queries.ts';
import { type ProjectRow, projectsByIds, ROW } from '#domains/projects/queries.ts';
import { defineCache } from '#platform/cache.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';
import type { JobActors } from './job-actors.ts';
import { readNeedsOfProjects } from './needs-of-projects.ts';

/** A job with all that its payload is made from. */
export interface JobToRun {
  readonly job: JobRow;
  readonly options: CompiledJob;
  readonly pipeline: PipelineRow;
  readonly project: ProjectRow;
  /** The user who started the job. Null if they were removed. */
  readonly user: JobUser | null;
  readonly checkout: Checkout;
  readonly dependencies: readonly Dependency[];
  /**
   * Whether there is no job for one of its `needs:pipeline`, or for a `needs:project` no archive that the job's token may
   * download.
   */
  readonly lacks_archive: boolean;
  /** It would replace a newer deployment. */
  readonly is_outdated: boolean;
  readonly given: GivenVariables;
  /** Of its environment. Null without one. */
  readonly tier: Tier | null;
  /** The variables of the instance, the groups and the project. */
  readonly variables: readonly JobVariable[];
}

interface JobUser {
  readonly id: number;
  readonly username: string;
  readonly name: string;
  readonly email: string;
  readonly state: string;
}

/** The facts in the repository about a pipeline. They are the same for all of its jobs. */
export interface Checkout {
  /** The full name of its branch, tag or merge request ref. */
  readonly ref: string;
  /** The ref that keeps its commit reachable. */
  readonly own_ref: string;
  /** Those of the two that exist. */
  readonly existing: ReadonlySet<string>;
  readonly predefined: readonly PredefinedVariable[];
}

/**
 * Reads jobs that are about to run, each kind of row in one statement whatever their number. Leaves out jobs that did not
 * come from a CI file, and those whose pipeline or repository cannot be read.
 *
 * @throws UnknownActors
 */
export const readJobsToRun = async (
  tx: Tx,
  ids: readonly number[],
  actors: JobActors,
): Promise<Map<number, JobToRun>> => {
  const hub = tx.as(systemActor);
  const rows = await jobsByIds(tx, ids);
  const pipelines = await pipelinesByIds(tx, [...new Set([...rows.values()].map(({ pipeline_id }) => pipeline_id))]);
  const projects = await projectsByIds(hub, [...new Set([...pipelines.values()].map((row) => row.project_id))], ROW);
  const jobs = ids.flatMap((id) => {
    const job = rows.get(id);
    const pipeline = job && pipelines.get(job.pipeline_id);
    const project = pipeline && projects.get(pipeline.project_id);
    const options = job && jobOptions(job);
    return project && options ? [{ job, pipeline, project, options }] : [];
  });
  const users = await usersByIds(tx, [...new Set(jobs.flatMap(({ job }) => job.user_id ?? []))]);
  const dependencies = await readDependencies(tx, jobs);
  const given = await readGivenVariables(tx, jobs, dependencies);
  const variables = await variablesForJobs(
    tx,
    jobs.map(({ job }) => ({ project_id: job.project_id, protected: job.protected, environment: job.environment })),
  );
  const checkouts = await readCheckouts(hub, jobs);
  const deploying = jobs.flatMap(({ job }) => (job.environment === null ? [] : job.id));
  const outdated = await outdatedDeployments(tx, deploying);
  const tiers = await tiersByJobIds(tx, deploying);
  const needy = jobs.map(({ job, options, pipeline }) => {
    const predefined = checkouts.get(pipeline.id)?.predefined ?? [];
    return { job, options, variables: [...predefined, ...options.variables, ...(given.get(job.id)?.pipeline ?? [])] };
  });
  const needs = await readNeedsOfProjects(tx, needy, actors);
  const runs = new Map<number, JobToRun>();
  for (const [place, { job, pipeline, project, options }] of jobs.entries()) {
    const { id, user_id } = job;
    const checkout = checkouts.get(pipeline.id);
    const ofJob = given.get(id);
    const own = dependencies.get(id);
    if (!checkout || !ofJob) continue;
    const others = needs.get(id) ?? [];
    runs.set(id, {
      ...{ job, options, pipeline, project, checkout, user: users.get(user_id ?? 0) ?? null },
      ...{ given: ofJob, variables: variables[place] ?? [] },
      dependencies: [...(own?.found ?? []), ...others.filter((other) => other !== null)],
      lacks_archive: others.includes(null) || own?.isWhole === false,
      is_outdated: outdated.has(id),
      tier: tiers.get(id) ?? null,
    });
  }
  return runs;
};

const usersByIds = async ({ db }: Pick<Tx, 'db'>, ids: readonly number[]): Promise<Map<number, JobUser>> => {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('users')
    .select(['id', 'username', 'name', 'email', 'state'])
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Reads each repository once. A repository that cannot be read takes only its own jobs away. */
const readCheckouts = async (
  ctx: Context,
  jobs: readonly { readonly pipeline: PipelineRow; readonly project: ProjectRow }[],
): Promise<ReadonlyMap<number, Checkout>> => {
  const byProject = Map.groupBy(new Map(jobs.map((each) => [each.pipeline.id, each])).values(), (each) => each.project);
  const read: ReadPipeline[] = [];
  const reading = [...byProject].map(async ([project, members]) => {
    const pipelines = members.map(({ pipeline }) => pipeline);
    read.push(...(await readRepository(ctx, project, pipelines)));
  });
  for (const outcome of await Promise.allSettled(reading)) {
    if (outcome.status === 'rejected') ctx.log.error({ err: outcome.reason }, 'could not read the repository of a job');
  }
  const variables = await predefinedVariablesOf(ctx, read);
  return new Map(
    read.map(({ pipeline, existing }, place) => [
      pipeline.id,
      {
        ref: fullRef(pipeline.ref ?? '', pipeline.tag),
        own_ref: pipelineRef(pipeline.id),
        existing,
        predefined: variables[place] ?? [],
      },
    ]),
  );
};

interface ReadPipeline {
  readonly project: ProjectRow;
  readonly pipeline: PipelineRow;
  readonly commit: Commit | null;
  /** Refs of the repository. */
  readonly existing: ReadonlySet<string>;
}

const MAX_COMMIT_BYTES = 16 * 1024 * 1024;

/** A commit never changes, and the jobs of a pipeline are handed out one after the other. By repository and id. */
const knownCommits = defineCache<string, Commit>({
  name: 'commits of jobs',
  limit: MAX_COMMIT_BYTES,
  weightOf: ({ message }) => 1_000 + 2 * message.length,
});

const readCommits = async (
  { services }: Context,
  disk_path: string,
  shas: readonly string[],
): Promise<ReadonlyMap<string, Commit>> => {
  const known = knownCommits(services);
  const commits = new Map<string, Commit>();
  for (const sha of shas) {
    const commit = known.get(`${disk_path} ${sha}`);
    if (commit) commits.set(sha, commit);
  }
  const unknown = shas.filter((sha) => !commits.has(sha));
  for (const commit of unknown.length === 0 ? [] : await services.git.readCommits(disk_path, unknown)) {
    commits.set(commit.id, commit);
    known.set(`${disk_path} ${commit.id}`, commit);
  }
  return commits;
};

const readRepository = async (
  ctx: Context,
  project: ProjectRow,
  pipelines: readonly PipelineRow[],
): Promise<ReadPipeline[]> => {
  const { disk_path } = project;
  const commits = await readCommits(ctx, disk_path, [...new Set(pipelines.flatMap(({ sha }) => sha ?? []))]);
  const refs = pipelines.flatMap((pipeline) => [pipelineRef(pipeline.id), fullRef(pipeline.ref ?? '', pipeline.tag)]);
  const existing = await ctx.services.git.existingRefs(disk_path, refs);
  return pipelines.map((pipeline) => ({
    project,
    pipeline,
    commit: commits.get(pipeline.sha ?? '') ?? null,
    existing,
  }));
};
