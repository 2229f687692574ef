import { sql } from 'kysely';
import { z } from 'zod';
import { ConfigError } from '#domains/ci-config/config-error.ts';
import type { Trigger, TriggerStrategy, Variable } from '#domains/ci-config/model.ts';
import { expandText, expandVariables, valuesOf } from '#domains/ci-config/variables.ts';
import { variablesFor } from '#domains/ci-variables/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import { branchRef, tagRef } from '#domains/repositories/model.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import { defineJob } from '#platform/jobs.ts';
import { cancelAll } from './commands.ts';
import { createPipeline, isRefusal, type NewPipeline } from './create.ts';
import type { PipelineVariable } from './creation/insert.ts';
import { readDependencies } from './dependencies.ts';
import type { FailureReason } from './failures.ts';
import { ancestorsOf, familySize } from './family.ts';
import { readGivenVariables } from './given-variables.ts';
import { type CiStatus, isComplete, statusOf } from './model.ts';
import { jobOptions } from './options.ts';
import { pipelineVariables } from './pipeline-variables.ts';
import { predefinedVariables } from './predefined.ts';
import { skippedAfter } from './processing/progress.ts';
import { ownJobs } from './processing/rows.ts';
import { lockPipeline, lockPipelineOf, processPipeline } from './processing.ts';
import { findPipelineByKey, type JobRow, jobByIdIn, type PipelineRow, pipelinesByIds } from './queries.ts';
import { finishJob } from './transitions.ts';
import { readUserVariables } from './user-variables.ts';

/** Child pipelines of child pipelines (reference: ci §1). */
const MAX_DEPTH = 2;
/** Pipelines that one pipeline started, directly or not. */
const MAX_FAMILY = 1_000;

/**
 * The job `ci.start_bridge`: creates the child or downstream pipeline of a bridge whose turn has come, and ends the
 * bridge unless its strategy lets it wait. If it runs twice, there is still one pipeline.
 */
export const startBridge = defineJob({
  name: 'ci.start_bridge',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (hub, { id }, { lastAttempt }) => {
    const bridge = await jobByIdIn(hub, id).catch(() => null);
    if (bridge?.status !== 'pending' || bridge.kind !== 'bridge') return;
    const made = await createDownstream(hub, bridge, lastAttempt);
    await hub.transaction(async (tx) => {
      if ('failure' in made) {
        await finishJob(tx, id, { status: 'failed', failure_reason: made.failure });
      } else if (made.pipeline.yaml_errors !== null) {
        await finishJob(tx, id, { status: 'failed', failure_reason: 'downstream_pipeline_creation_failed' });
      } else if (made.strategy === null) {
        await finishJob(tx, id, { status: 'success' });
      } else {
        await mirror(tx, made.pipeline, made.strategy);
      }
    });
  },
});

type Made =
  | { readonly failure: FailureReason }
  | { readonly pipeline: PipelineRow; readonly strategy: Trigger['strategy'] };

/** @throws errors after which another attempt may succeed */
const createDownstream = async (hub: Context, bridge: JobRow, isLast: boolean): Promise<Made> => {
  try {
    return await tryDownstream(hub, bridge);
  } catch (error) {
    // `ConfigError`: its variables cannot be expanded.
    const mayPass = error instanceof DomainError || error instanceof GitError;
    const isFinal = error instanceof ConfigError || isRefusal(error) || (isLast && mayPass);
    if (!isFinal) throw error;
    hub.log.info({ err: error, bridge_job_id: bridge.id }, 'a bridge could not start its pipeline');
    return { failure: 'downstream_pipeline_creation_failed' };
  }
};

const tryDownstream = async (hub: Context, bridge: JobRow): Promise<Made> => {
  const key = `bridge:${bridge.id}`;
  const trigger = jobOptions(bridge)?.trigger;
  if (!trigger) return { failure: 'invalid_bridge_trigger' };
  const known = await findPipelineByKey(hub, key);
  if (known) return { pipeline: known, strategy: trigger.strategy };
  const ctx = await contextFor(hub, bridge.user_id, bridge.project_id);
  const parent = (await pipelinesByIds(hub, [bridge.pipeline_id])).get(bridge.pipeline_id);
  const project = ctx && (await findProject(ctx, { id: bridge.project_id }));
  if (!parent || !project) return { failure: 'insufficient_bridge_permissions' };
  const ancestors = await ancestorsOf(hub, parent.id);
  if ((await familySize(hub, ancestors.at(-1)?.id ?? parent.id)) >= MAX_FAMILY) {
    return { failure: 'reached_max_pipeline_hierarchy_size' };
  }
  if (!(await mayTrigger(ctx, project, parent))) return { failure: 'reached_downstream_pipeline_trigger_rate_limit' };
  const values = await valuesFor(ctx, project, parent, bridge);
  if (values.is_lost) return { failure: 'data_integrity_failure' };
  const common = {
    variables: forwarded(values, trigger),
    inputs: trigger.inputs,
    bridge_job_id: bridge.id,
    save_errors: true,
    key,
  } satisfies Partial<NewPipeline>;
  if (trigger.project === null) {
    const depth = [parent, ...ancestors].findIndex(({ source }) => source !== 'parent_pipeline');
    if (depth >= MAX_DEPTH) return { failure: 'reached_max_descendant_pipelines_depth' };
    const child = await createPipeline(ctx, project, {
      ...common,
      ...(await targetOf(hub, parent)),
      source: 'parent_pipeline',
      include: trigger.include,
      parent_id: parent.id,
    });
    return { pipeline: child, strategy: trigger.strategy };
  }
  const downstream = await findProject(ctx, { path: expandText(trigger.project, values.lookup) });
  if (!downstream) return { failure: 'downstream_bridge_project_not_found' };
  if (!can(ctx, downstream, 'create_pipeline')) return { failure: 'insufficient_bridge_permissions' };
  const ref = trigger.branch === null ? (downstream.default_branch ?? '') : expandText(trigger.branch, values.lookup);
  const isLoop = [parent, ...ancestors].some(
    (each) => each.project_id === downstream.id && each.ref === ref && each.source === 'pipeline',
  );
  if (isLoop) return { failure: 'pipeline_loop_detected' };
  const pipeline = await createPipeline(ctx, downstream, { ...common, ref, source: 'pipeline' });
  return { pipeline, strategy: trigger.strategy };
};

/** Counts the pipelines that bridges of the user start for a commit. Returns false above the limit. */
const mayTrigger = async (ctx: Context, project: ProjectRow, { sha }: PipelineRow): Promise<boolean> => {
  try {
    await limitAction(ctx, 'downstream_pipeline_trigger_limit_per_project_user_sha', `${project.id}:${sha}`);
    return true;
  } catch (error) {
    if (error instanceof DomainError && error.code === 'too_many_requests') return false;
    throw error;
  }
};

interface BridgeValues {
  /** Those of the bridge itself, expanded. */
  readonly own: readonly Variable[];
  /** Those given to the parent pipeline. */
  readonly given: readonly PipelineVariable[];
  readonly lookup: (name: string) => string | undefined;
  /** One of them was encrypted with a lost key. */
  readonly is_lost: boolean;
}

/** Returns the variables of the bridge, expanded with those that a job of its pipeline would get. */
const valuesFor = async (
  ctx: Context,
  project: ProjectRow,
  parent: PipelineRow,
  bridge: JobRow,
): Promise<BridgeValues> => {
  const commits = await ctx.services.git.readCommits(project.disk_path, parent.sha === null ? [] : [parent.sha]);
  const options = jobOptions(bridge);
  const asking = options ? [{ job: bridge, options }] : [];
  const ofJob = await readGivenVariables(ctx, asking, await readDependencies(ctx, asking));
  const [predefined, user, secret, read] = await Promise.all([
    predefinedVariables(ctx, project, parent, commits[0] ?? null),
    readUserVariables(ctx, bridge.user_id),
    variablesFor(ctx, project, { protected: parent.protected, environment: bridge.environment }),
    pipelineVariables(ctx, parent.id),
  ]);
  const own = options?.variables ?? [];
  const dotenv = ofJob.get(bridge.id)?.dotenv ?? [];
  const given = read.map((each) => ({ ...each, value: each.value ?? '' }));
  const is_lost = read.some(({ value }) => value === null) || [...secret, ...dotenv].some((each) => each.is_lost);
  const all = expandVariables<Variable>([
    ...predefined,
    ...own,
    ...user,
    ...dotenv,
    ...secret,
    ...given.map(({ key, value, raw, variable_type }) => ({ key, value, raw, file: variable_type === 'file' })),
  ]);
  return { own: all.slice(predefined.length, predefined.length + own.length), given, lookup: valuesOf(all), is_lost };
};

/** Returns what `trigger:forward` passes on, lowest precedence first. */
const forwarded = ({ own, given }: BridgeValues, { forward }: Trigger): PipelineVariable[] => [
  ...(forward.yaml_variables ? own.map(({ key, value, raw }) => ({ key, value, raw: raw ?? false })) : []),
  ...(forward.pipeline_variables ? given : []),
];

/** A child pipeline runs for what its parent runs for. */
const targetOf = async (
  { db }: Pick<Context, 'db'>,
  parent: PipelineRow,
): Promise<Pick<NewPipeline, 'ref' | 'sha' | 'before_sha' | 'merge_request'>> => {
  const { ref, sha, before_sha, merge_request_id, source_sha, target_sha } = parent;
  const { rows } = await sql<{ source_branch: string; base: string | null }>`
    select m.source_branch, d.base_commit_sha as base from merge_requests m
      left join merge_request_diffs d on d.merge_request_id = m.id and d.is_latest
    where m.id = ${merge_request_id}`.execute(db);
  const [row] = rows;
  if (ref === null || sha === null) return { ref: '' };
  if (merge_request_id !== null && row) {
    const of = { id: merge_request_id, source_sha: source_sha ?? sha, target_sha, base_sha: row.base };
    return { ref: row.source_branch, before_sha, merge_request: { ...of, ref, sha } };
  }
  return { ref: parent.tag ? tagRef(ref) : branchRef(ref), sha, before_sha };
};

/** The job `ci.follow_downstream`: gives a bridge that waits for its pipeline the status of that pipeline. */
export const followDownstream = defineJob({
  name: 'ci.follow_downstream',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    const pipeline = (await pipelinesByIds(ctx, [id])).get(id);
    if (pipeline?.bridge_job_id == null) return;
    const bridge = await jobByIdIn(ctx, pipeline.bridge_job_id).catch(() => null);
    const strategy = bridge && jobOptions(bridge)?.trigger?.strategy;
    if (strategy) await ctx.transaction((tx) => mirror(tx, pipeline, strategy));
  },
});

/** The status of a bridge with a strategy while its pipeline has this status (reference: ci §1). */
const mirrored = (status: CiStatus, strategy: TriggerStrategy): CiStatus => {
  if (strategy === 'mirror') return status === 'created' ? 'running' : status;
  if (status === 'skipped') return 'failed';
  return isComplete({ status }) ? status : 'running';
};

const mirror = async (
  tx: Tx,
  { id, bridge_job_id }: Pick<PipelineRow, 'id' | 'bridge_job_id'>,
  strategy: TriggerStrategy,
): Promise<void> => {
  const pipeline = bridge_job_id === null ? null : await lockPipelineOf(tx, bridge_job_id);
  if (!pipeline || bridge_job_id === null) return;
  // Read under the lock, so that of two changes the newer one is written last.
  const child = await tx.db.selectFrom('pipelines').select('status').where('id', '=', id).executeTakeFirst();
  const bridge = (await ownJobs(tx, pipeline)).find((job) => job.id === bridge_job_id);
  if (!child || !bridge) return;
  const status = mirrored(statusOf(child), strategy);
  if (status === bridge.status || (bridge.status === 'canceled' && status !== 'running')) return;
  const isOver = isComplete({ status });
  await tx.db
    .updateTable('jobs')
    .set({
      status,
      started_at: sql`coalesce(started_at, now())`,
      finished_at: isOver ? sql`now()` : null,
      updated_at: sql`now()`,
    })
    .where('id', '=', bridge_job_id)
    .execute();
  // The downstream pipeline was retried, so what was skipped after the bridge may run after all.
  const reset = isComplete(bridge) ? skippedAfter(await ownJobs(tx, pipeline), new Set([bridge.id])) : [];
  await tx.db
    .updateTable('jobs')
    .set({ status: 'created', finished_at: null, updated_at: sql`now()` })
    .where(sql<boolean>`id = any (${reset}::bigint[])`)
    .execute();
  await processPipeline(tx, pipeline, { changed: [bridge_job_id, ...reset] });
};

/** The job `ci.cancel_child`: cancels a child pipeline whose parent or bridge was canceled. */
export const cancelChild = defineJob({
  name: 'ci.cancel_child',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) =>
    ctx.transaction(async (tx) => {
      const pipeline = await lockPipeline(tx, id);
      if (pipeline) await cancelAll(tx, pipeline);
    }),
});
