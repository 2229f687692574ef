import type { CompileResult } from '#domains/ci-config/model.ts';
import { givenProblemOf } from '#domains/ci-variables/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { DomainError, type ErrorCode, invalid, notFound } from '#platform/errors.ts';
import { cancelRedundant } from './creation/auto-cancel.ts';
import { type Compiled, type CompileRequest, compileFor } from './creation/compiling.ts';
import { insertPipeline, type PipelinePlan, reservePipelineId } from './creation/insert.ts';
import { asksToSkip } from './creation/skipping.ts';
import { findTarget, type MergeRequestTarget, type Target } from './creation/target.ts';
import { passesValidation } from './creation/validation.ts';
import { isDangling, type PipelineSource } from './model.ts';
import { mayRunOn, maySetVariables } from './policy.ts';
import { processPipeline } from './processing.ts';
import { findPipelineByKey, type PipelineRow, pipelinesByIds } from './queries.ts';
import { pipelineRef, removePipelineRefs } from './refs.ts';

export interface NewPipeline extends CompileRequest {
  /** The name of a branch or tag, or its full ref. For a merge request, its source branch. */
  readonly ref: string;
  /** An older commit of the branch. Defaults to its tip. */
  readonly sha?: string | undefined;
  readonly merge_request?: NewMergeRequestPipeline | undefined;
  readonly schedule_id?: number | undefined;
  readonly bridge_job_id?: number | undefined;
  /** Stores a failed pipeline if the CI file is not valid or the validation service rejects it, instead of throwing. */
  readonly save_errors?: boolean | undefined;
  /** The push option `ci.skip`: stores a skipped pipeline without jobs. */
  readonly skip?: boolean | undefined;
  /** Requests with the same key create one pipeline. */
  readonly key?: string | undefined;
}

interface NewMergeRequestPipeline extends MergeRequestTarget {
  /** `refs/merge-requests/1/head`, or `/merge` for the merged result. */
  readonly ref: string;
  /** The commit of that ref. */
  readonly sha: string;
}

/** Sources for which `[skip ci]` in the commit message counts. */
const SKIPPABLE: ReadonlySet<PipelineSource> = new Set(['push', 'merge_request_event']);

const NO_JOBS =
  'Pipeline will not run for the selected trigger. The rules configuration prevented any jobs from being added to the pipeline.';
const FILTERED = 'Pipeline filtered out by workflow rules.';
const REJECTED = 'External validation failed';

/** Given to one pipeline by a person, a push, a schedule or a trigger. */
const MAX_VARIABLES = 1_000;

const refused = (...reasons: readonly string[]) => invalid({ base: reasons });

/**
 * Creates a pipeline for a branch, a tag or a merge request, and starts its first jobs (reference: ci §2).
 *
 * @throws DomainError as `authorisePipeline`; `invalid` with the reason under `base`, in the wording that clients know
 */
export const createPipeline = async (ctx: Context, project: ProjectRow, wanted: NewPipeline): Promise<PipelineRow> => {
  const known = wanted.key === undefined ? null : await findPipelineByKey(ctx, wanted.key);
  if (known) return known;
  const target = await authorisePipeline(ctx, project, wanted);
  const isSkipped = wanted.skip || (SKIPPABLE.has(wanted.source) && asksToSkip(target.commit.message));
  const compiled = isSkipped ? null : await compileFor(ctx, project, wanted, target);
  checkResult(compiled, wanted);
  const id = await reservePipelineId(ctx);
  const planned = planOf(ctx, wanted, target, id, compiled);
  const plan = (await passesValidation(ctx, project, planned)) ? planned : rejectedPlan(planned, wanted);
  const { git } = ctx.services;
  // Runners fetch this ref, so it is written before they can see a job.
  if (plan.jobs.length > 0) {
    await git.updateRefs(project.disk_path, [{ ref: pipelineRef(id), newOid: target.commit.id }]);
  }
  try {
    await ctx.transaction((tx) => store(tx, project, wanted, plan));
  } catch (error) {
    await removePipelineRefs(ctx, project, [id]);
    const isRepeated = wanted.key !== undefined && brokenConstraint(error) === 'pipelines_idempotency_key';
    const other = isRepeated ? await findPipelineByKey(ctx, wanted.key) : null;
    if (other) return other;
    throw error;
  }
  const row = (await pipelinesByIds(ctx, [id])).get(id);
  if (!row) throw notFound('Pipeline');
  return row;
};

/** Failures that pass by themselves. `conflict`: an archive is imported into the project. */
const PASSING: ReadonlySet<ErrorCode> = new Set(['unavailable', 'no_space', 'too_many_requests', 'conflict']);

/** Returns true if `createPipeline` would refuse the same again. Jobs try again after all other errors. */
export const isRefusal = (error: unknown): error is DomainError =>
  error instanceof DomainError && !PASSING.has(error.code);

/** Checks that the caller may create pipelines in the project. @throws DomainError `invalid` */
export const requirePipelines = (ctx: Context, project: ProjectRow): void => {
  if (project.builds_access_level === 'disabled') throw refused('Pipelines are disabled!');
  if (!can(ctx, project, 'create_pipeline')) throw refused('Insufficient permissions to create a new pipeline');
};

/**
 * Finds what the pipeline is for, and checks that the caller may run it.
 *
 * @throws DomainError `invalid`; for pipelines that a caller requests by itself (`api`, `web`) as `requireAbility`
 */
export const authorisePipeline = async (ctx: Context, project: ProjectRow, wanted: NewPipeline): Promise<Target> => {
  if (wanted.source === 'api' || wanted.source === 'web') requireAbility(ctx, project, 'create_pipeline');
  else requirePipelines(ctx, project);
  // Bridges forward variables of the CI file, which are limited with the file.
  const problem = wanted.bridge_job_id === undefined ? givenProblemOf(wanted.variables ?? [], MAX_VARIABLES) : null;
  if (problem !== null) throw invalid({ variables: [problem] });
  // Child pipelines get variables of their own project only.
  if ((wanted.variables ?? []).length > 0 && wanted.source !== 'parent_pipeline' && !maySetVariables(ctx, project)) {
    throw refused('Insufficient permissions to set pipeline variables');
  }
  const target = wanted.merge_request
    ? await mergeRequestTarget(ctx, project, wanted.ref, wanted.merge_request)
    : await findTarget(ctx, project, wanted);
  if (!target) throw refused('Reference not found');
  if (!(await mayRunOn(ctx, project, target))) {
    throw refused(
      `You do not have sufficient permission to run a pipeline on '${target.name}'. Please select a different branch or contact your administrator for assistance.`,
    );
  }
  return target;
};

const mergeRequestTarget = async (
  ctx: Context,
  project: ProjectRow,
  name: string,
  { ref, sha, ...merge_request }: NewMergeRequestPipeline,
): Promise<Target | null> => {
  const [commit] = await ctx.services.git.readCommits(project.disk_path, [sha]);
  return commit ? { ref, name, tag: false, protected: false, commit, merge_request } : null;
};

/** Returns why no pipeline is created although the CI file is valid; empty if one is. */
export const problemsOf = (result: Extract<CompileResult, { ok: true }>): string[] => {
  if (result.pipeline.jobs.length > 0) return [];
  return [result.excluded_by === 'workflow' ? FILTERED : NO_JOBS];
};

/** Refuses what must not be stored. @throws DomainError `invalid` */
const checkResult = (compiled: Compiled | null, { save_errors }: NewPipeline): void => {
  if (!compiled) return;
  const { result } = compiled;
  if (result.ok) {
    const problems = problemsOf(result);
    if (problems.length > 0) throw refused(...problems);
  } else if (result.reason === 'missing') {
    throw refused('Missing CI config file');
  } else if (!save_errors) {
    throw refused(...result.errors);
  }
};

const planOf = (
  ctx: Context,
  wanted: NewPipeline,
  target: Target,
  id: number,
  compiled: Compiled | null,
): PipelinePlan => {
  const result = compiled?.result ?? null;
  const auto_cancel = result?.ok ? result.pipeline.auto_cancel : null;
  return {
    row: {
      id,
      name: result?.ok ? result.pipeline.name : null,
      ref: target.ref,
      tag: target.tag,
      protected: target.protected,
      sha: target.commit.id,
      before_sha: wanted.before_sha ?? null,
      source: wanted.source,
      config_source:
        wanted.content === undefined && wanted.include === undefined ? 'repository_source' : 'parameter_source',
      user_id: ctx.actor.userId,
      committed_at: target.commit.committed_date,
      merge_request_id: target.merge_request?.id ?? null,
      source_sha: target.merge_request?.source_sha ?? null,
      target_sha: target.merge_request?.target_sha ?? null,
      schedule_id: wanted.schedule_id ?? null,
      bridge_job_id: wanted.bridge_job_id ?? null,
      idempotency_key: wanted.key ?? null,
      ...(auto_cancel && {
        auto_cancel_on_new_commit: auto_cancel.on_new_commit,
        auto_cancel_on_job_failure: auto_cancel.on_job_failure,
      }),
      ...(result ? {} : { status: 'skipped' }),
      ...(result && !result.ok
        ? {
            status: 'failed',
            failure_reason: 'config_error',
            yaml_errors: result.errors.join('\n'),
          }
        : {}),
    },
    variables: wanted.variables ?? [],
    stages: result?.ok ? result.pipeline.stages : [],
    jobs: compiled?.jobs ?? [],
  };
};

/** Returns the failed pipeline that is stored instead of a rejected one. @throws DomainError `invalid` if none is */
const rejectedPlan = (plan: PipelinePlan, { save_errors }: NewPipeline): PipelinePlan => {
  if (!save_errors) throw refused(REJECTED);
  const row = { ...plan.row, status: 'failed', failure_reason: 'external_validation_failure' };
  return { ...plan, row, stages: [], jobs: [] };
};

const store = async (tx: Tx, project: ProjectRow, wanted: NewPipeline, plan: PipelinePlan): Promise<void> => {
  const { pipeline, jobs } = await insertPipeline(tx, project, plan);
  // A pipeline that was skipped or has errors replaces no other.
  if (jobs.length === 0) return;
  await processPipeline(tx, pipeline, { isNew: true, jobs });
  if (project.auto_cancel_pending_pipelines === 'enabled' && !isDangling(wanted)) {
    tx.enqueue(cancelRedundant, { id: pipeline.id }, { key: `ci.redundant:${pipeline.id}` });
  }
};
