import { isComplete } from '#domains/ci/model.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { conflict, DomainError, unauthenticated } from '#platform/errors.ts';
import { type DetailedMergeStatus, mergeabilityByIds } from './mergeability.ts';
import { scheduleAutoMerge } from './merging/auto-merge.ts';
import { failed, land, type MergeOptions, MergeRefused } from './merging/landing.ts';
import { pipelineOfHead } from './pipelines/pipelines.ts';
import { mayMerge } from './policy.ts';
import { getMergeRequest, type MergeRequestRow } from './queries.ts';
import { refreshNow } from './versions/refresh.ts';

export interface Merge extends MergeOptions {
  /** The head that the caller has seen. */
  readonly sha?: string | undefined;
  /** Merges once everything that can be waited for is there. */
  readonly auto_merge?: boolean | undefined;
}

/** The target branch may move this often while its merge is prepared. */
const MAX_ATTEMPTS = 5;
const NEEDS_REBASE = 'Only fast-forward merge is allowed for your project. Please update your source branch';

/**
 * The statuses that auto-merge waits for (reference: merge-requests §4). It does not wait for conflicts to be resolved.
 */
const WAITED_FOR: ReadonlySet<string> = new Set<DetailedMergeStatus>([
  'ci_must_pass',
  'ci_still_running',
  'discussions_not_resolved',
  'draft_status',
  'merge_request_blocked',
  'merge_time',
  'approvals_syncing',
  'not_approved',
  'requested_changes',
  'title_regex',
]);

/**
 * Merges a merge request, or schedules its merge (reference: merge-requests §4).
 *
 * @throws DomainError `unauthenticated` if the caller may neither push nor merge to the target branch, `not_allowed` if
 *   something other than the code is in the way, `conflict` for another head than `sha`, `unprocessable` if the branches
 *   cannot be merged
 */
export const mergeMergeRequest = (
  ctx: Context,
  project: ProjectRow,
  given: MergeRequestRow,
  { auto_merge = false, ...input }: Merge,
): Promise<MergeRequestRow> => mergeOnce(ctx, project, given, input, auto_merge ? mustWait : mayIgnoreOwnWait);

/** Merges a merge request as soon as nothing is in the way: now, or later. @throws DomainError as `mergeMergeRequest` */
export const mergeWhenReady = (ctx: Context, project: ProjectRow, given: MergeRequestRow): Promise<MergeRequestRow> =>
  mergeOnce(ctx, project, given, {}, async (_ctx, _project, row, status) =>
    status === 'mergeable'
      ? ((await mustWait(ctx, project, row, status)) ?? false)
      : mustWait(ctx, project, row, status),
  );

/** Merges a merge request whose auto-merge is due. @throws DomainError as `mergeMergeRequest` */
export const mergeDue: typeof mergeMergeRequest = (ctx, project, given, input) =>
  mergeOnce(ctx, project, given, input, async (_ctx, _project, _row, status) =>
    status === 'mergeable' ? false : null,
  );

/** Returns whether the merge has to wait. Null refuses it. */
type Decide = (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  status: DetailedMergeStatus,
) => Promise<boolean | null>;

const mergeOnce = async (
  ctx: Context,
  project: ProjectRow,
  given: MergeRequestRow,
  input: Merge,
  decide: Decide,
): Promise<MergeRequestRow> => {
  let current = project;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const seen = await getMergeRequest(ctx, current, given.iid);
    if (!(await mayMerge(ctx, current, seen.target_branch))) throw unauthenticated();
    if (seen.state === 'opened') await refreshNow(ctx, seen.id);
    const row = await getMergeRequest(ctx, current, given.iid);
    // The caller may merge into the branch that they saw, not into another.
    if (row.target_branch === seen.target_branch) {
      const waits = await judge(ctx, current, row, input, decide);
      const done = await (waits ? scheduleAutoMerge(ctx, current, row, input) : land(ctx, current, row, input));
      if (done) return done;
    }
    // A branch or the merge request has moved, or somebody else merges. All of these show in the next round.
    current = (await findProject(ctx, { id: project.id })) ?? current;
  }
  throw new MergeRefused('moved');
};

/** Returns whether the merge has to wait. Throws if it is refused, in the order of the reference. */
const judge = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  { sha }: Merge,
  decide: Decide,
): Promise<boolean> => {
  const { detailed_merge_status: status = 'checking', ci_status = 'ci_must_pass' } =
    (await mergeabilityByIds(ctx, [row.id])).get(row.id) ?? {};
  const isCodeInTheWay = status === 'conflict' || status === 'need_rebase';
  // CI is asked before the code. Nothing waits until the code changes.
  const waits = await decide(ctx, project, row, isCodeInTheWay ? ci_status : status);
  if (waits === null || (waits && isCodeInTheWay)) throw new DomainError('not_allowed', '405 Method Not Allowed');
  if (status === 'conflict') throw new MergeRefused('code');
  if (status === 'need_rebase') throw await failed(ctx, project, row, NEEDS_REBASE, 'code');
  if (sha !== undefined && sha !== row.diff_head_sha) {
    throw conflict(`SHA does not match HEAD of source branch: ${row.diff_head_sha}`);
  }
  return waits;
};

/** A person who merges does not wait for a pipeline that only auto-merge waits for. */
const mayIgnoreOwnWait: Decide = async (_ctx, project, row, status) => {
  const isOwnWait =
    row.merge_when_pipeline_succeeds &&
    !project.only_allow_merge_if_pipeline_succeeds &&
    (status === 'ci_must_pass' || status === 'ci_still_running');
  return status === 'mergeable' || isOwnWait ? false : null;
};

/** Returns whether auto-merge waits or merges at once. Null if there is nothing to wait for. */
const mustWait: Decide = async (ctx, _project, row, status) => {
  if (status !== 'mergeable') return WAITED_FOR.has(status) ? true : null;
  const pipeline = await pipelineOfHead(ctx, row);
  if (!pipeline) return null;
  if (pipeline.status === 'success') return false;
  return isComplete(pipeline) ? null : true;
};
