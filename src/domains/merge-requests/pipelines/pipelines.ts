import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { createPipeline, isRefusal, requirePipelines } from '#domains/ci/create.ts';
import { createPipelinesOfPush } from '#domains/ci/expected.ts';
import type { HookedMergeRequest } from '#domains/ci/hook-relatives.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { findQueuedInput } from '#platform/job-runner/queue.ts';
import { defineJob } from '#platform/jobs.ts';
import { isOfHead, mergeabilityByIds } from '../mergeability.ts';
import { refreshMergeRef } from '../merging/merge-ref.ts';
import { mergeRequestWebUrl } from '../model.ts';
import { headPipelinesByIds, type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';
import { headRef, mergeRef } from '../refs.ts';

/**
 * Creates a pipeline for the merge request (reference: ci §2): of the merged result if the project has
 * `merge_pipelines_enabled` and the branches merge cleanly, otherwise of the head. It runs in the target project if the
 * caller may run pipelines there. Otherwise it runs in the fork, and always on the head.
 *
 * With a `key`, repeated calls create one pipeline, also a failed one if the CI file is not valid.
 *
 * @throws DomainError `not_allowed` if there is nothing to run for; as `createPipeline`
 */
export const createMergeRequestPipeline = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  { key }: { readonly key?: string } = {},
): Promise<PipelineRow> => {
  const version = await latestVersion(ctx, row);
  const head = version?.head_commit_sha;
  const runsIn = await projectOfPipeline(ctx, project, row);
  if (row.state !== 'opened' || !head || version.commits_count === 0 || !runsIn) throw nothingToRun();
  const merged =
    project.merge_pipelines_enabled && runsIn.id === project.id ? await mergedResult(ctx, project, row, head) : null;
  return createPipeline(ctx, runsIn, {
    ref: row.source_branch,
    source: 'merge_request_event',
    merge_request: merged ?? {
      id: row.id,
      ref: headRef(row.iid),
      sha: head,
      source_sha: head,
      target_sha: null,
      base_sha: version.base_commit_sha,
    },
    ...(key === undefined ? {} : { save_errors: true, key }),
  });
};

/**
 * Enqueues the same, for a caller who does not wait. Each call creates a pipeline of its own.
 *
 * @throws DomainError `not_allowed` if there is nothing to run for, `invalid` if the caller may not create pipelines
 */
export const createMergeRequestPipelineLater = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
): Promise<void> => {
  const version = await latestVersion(ctx, row);
  const isReady = row.state === 'opened' && version?.commits_count != null && version.commits_count > 0;
  const runsIn = isReady && (await projectOfPipeline(ctx, project, row));
  if (!runsIn) throw nothingToRun();
  requirePipelines(ctx, runsIn);
  await ctx.transaction(async (tx) => {
    const request = pipelineRequest(tx, row);
    if (request) tx.enqueue(createPipelineOfHead, request);
  });
};

/** Returns the input of a job that creates a pipeline for the current head, in addition to those it has. */
export const pipelineRequest = (tx: Tx, { id, diff_head_sha }: Pick<MergeRequestRow, 'id' | 'diff_head_sha'>) => {
  const { userId } = tx.actor;
  if (userId === null || diff_head_sha === null) return null;
  return { id, user_id: userId, head: diff_head_sha, key: `merge_request:${id}:${randomUUID()}` };
};

const nothingToRun = () => new DomainError('not_allowed', '405 Method Not Allowed');

const latestVersion = ({ db }: Pick<Context, 'db'>, { id }: Pick<MergeRequestRow, 'id'>) =>
  db
    .selectFrom('merge_request_diffs')
    .select(['id', 'head_commit_sha', 'base_commit_sha', 'commits_count'])
    .where('merge_request_id', '=', id)
    .where('is_latest', '=', true)
    .executeTakeFirst();

/** Merges the head into the target branch as it is now. Null if they conflict, or one of them is gone. */
const mergedResult = async (ctx: Context, project: ProjectRow, row: MergeRequestRow, head: string) => {
  const { git } = ctx.services;
  const start = await git.resolve(project.disk_path, branchRef(row.target_branch));
  const [commit] = await git.readCommits(project.disk_path, [head]);
  const sha = start && commit ? await refreshMergeRef(ctx, project, row, { start, head }) : null;
  if (start === null || sha === null) return null;
  // Seen from the target branch, the merge changes what the merge request changes.
  return { id: row.id, ref: mergeRef(row.iid), sha, source_sha: head, target_sha: start, base_sha: start };
};

const projectOfPipeline = async (
  ctx: Context,
  project: ProjectRow,
  { source_project_id }: MergeRequestRow,
): Promise<ProjectRow | null> => {
  if (source_project_id === project.id) return project;
  if (project.ci_allow_fork_pipelines_to_run_in_parent_project && can(ctx, project, 'create_pipeline')) return project;
  return source_project_id === null ? null : findProject(ctx, { id: source_project_id });
};

/** The job `merge_requests.create_pipeline`: creates the pipeline of a new head, unless there is nothing to run. */
export const createPipelineOfHead = defineJob({
  name: 'merge_requests.create_pipeline',
  /** Without a `key`, each version gets one pipeline. */
  input: z.object({ id: z.number(), user_id: z.number(), head: z.string(), key: z.string().optional() }),
  maxAttempts: 8,
  run: async (hub, { id, user_id, head, key }) => {
    const row = (await mergeRequestsByIds(hub, [id])).get(id);
    const ctx = row && (await contextFor(hub, user_id, row.project_id));
    const project = ctx && (await findProject(ctx, { id: row.project_id }));
    if (!project || row.diff_head_sha !== head) return;
    const version = await latestVersion(ctx, row);
    try {
      await createMergeRequestPipeline(ctx, project, row, { key: key ?? `merge_request:${id}:${version?.id}` });
    } catch (error) {
      // Most CI files have no jobs for merge requests.
      if (!isRefusal(error)) throw error;
      ctx.log.debug({ err: error, merge_request_id: id }, 'a merge request got no pipeline');
    }
  },
});

/** Enqueues the pipeline of a new head. */
export const enqueuePipelineOfHead = (
  tx: Tx,
  created: { readonly id: number; readonly user_id: number; readonly head: string },
): void => tx.enqueue(createPipelineOfHead, created, { key: keyOfHead(created.id) });

/**
 * Returns the pipeline of the head, or null if it has none. A new head may get one within a second, for the merge request
 * or for the push to its source branch. This creates it at once, for a caller who must not miss it.
 */
export const pipelineOfHead = async (ctx: Context, row: MergeRequestRow): Promise<PipelineRow | null> => {
  const known = await knownPipelineOfHead(ctx, row);
  if (known) return known;
  await createExpectedPipelines(ctx, row);
  return knownPipelineOfHead(ctx, row);
};

const knownPipelineOfHead = async (ctx: Context, row: MergeRequestRow): Promise<PipelineRow | null> => {
  const pipeline = (await headPipelinesByIds(ctx, [row.id])).get(row.id);
  return isOfHead(row, pipeline) ? pipeline : null;
};

const createExpectedPipelines = async (
  ctx: Context,
  { id, source_project_id, source_branch, diff_head_sha: after }: MergeRequestRow,
): Promise<void> => {
  const enqueued = await findQueuedInput(ctx.db, createPipelineOfHead, keyOfHead(id));
  // The job creates no second one.
  const run = { attempt: 1, lastAttempt: false };
  if (enqueued) await createPipelineOfHead.run({ ...ctx, actor: systemActor }, enqueued, run);
  if (source_project_id !== null && after !== null)
    await createPipelinesOfPush(ctx, { id: source_project_id }, { ref: branchRef(source_branch), after });
};

const keyOfHead = (id: number): string => `merge_requests.pipeline:${id}`;

/** Describes the merge request of a pipeline for the bodies of hooks (reference: webhooks §3). */
export const describeForHooks = async (ctx: Context, id: number): Promise<HookedMergeRequest | null> => {
  const [rows, states] = await Promise.all([mergeRequestsByIds(ctx, [id]), mergeabilityByIds(ctx, [id])]);
  const row = rows.get(id);
  if (!row) return null;
  return {
    id: row.id,
    iid: row.iid,
    title: row.title,
    source_branch: row.source_branch,
    source_project_id: row.source_project_id,
    target_branch: row.target_branch,
    target_project_id: row.project_id,
    state: row.state,
    merge_status: row.merge_status,
    detailed_merge_status: states.get(id)?.detailed_merge_status ?? 'unchecked',
    url: mergeRequestWebUrl(ctx, row),
  };
};
