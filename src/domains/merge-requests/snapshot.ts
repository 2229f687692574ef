import { z } from 'zod';
import { REPORTER } from '#domains/access/model.ts';
import { labelsByMergeRequestIds } from '#domains/labels/queries.ts';
import { hookLabel } from '#domains/labels/webhook.ts';
import type { Changes } from '#domains/planning/changes.ts';
import { isOpenForReview } from '#domains/planning/readers.ts';
import { projectScope } from '#domains/projects/model.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { EventDefinition } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import type { ApprovalPayload, MergeRequestPayload, MergeRequestSnapshot } from './events.ts';
import { mergeabilityByIds } from './mergeability.ts';
import {
  firstContributionsAmong,
  headPipelinesByIds,
  type MergeRequestRow,
  mergeRequestStatsByIds,
} from './queries.ts';

interface Placed {
  readonly row: MergeRequestRow;
  readonly project: ProjectRow;
}

/** Returns merge requests as event payload, in the given order. */
export const snapshotsOf = async (ctx: Context, placed: readonly Placed[]): Promise<MergeRequestSnapshot[]> => {
  const ids = placed.map(({ row }) => row.id);
  const [stats, labels, pipelines, firsts, mergeability] = await Promise.all([
    mergeRequestStatsByIds(ctx, ids),
    labelsByMergeRequestIds(ctx, ids),
    headPipelinesByIds(ctx, ids),
    firstContributionsAmong(ctx, ids),
    mergeabilityByIds(ctx, ids),
  ]);
  return placed.map(({ row }) => {
    const known = stats.get(row.id);
    const { detailed_merge_status = 'unchecked', blocking_discussions_resolved = true } =
      mergeability.get(row.id) ?? {};
    const pipeline = pipelines.get(row.id);
    return {
      id: row.id,
      iid: row.iid,
      project_id: row.project_id,
      project_path: row.project_path,
      source_project_id: row.source_project_id,
      source_branch: row.source_branch,
      target_branch: row.target_branch,
      title: row.title,
      description: row.description,
      state: row.state,
      draft: row.draft,
      author_id: row.author_id,
      milestone_id: row.milestone_id,
      discussion_locked: row.discussion_locked,
      diff_head_sha: row.diff_head_sha,
      merge_status: row.merge_status,
      detailed_merge_status,
      merge_error: row.merge_error,
      merge_params: z.json().parse(row.merge_params),
      merge_commit_sha: row.merge_commit_sha,
      merge_user_id: row.merge_user_id,
      merge_when_pipeline_succeeds: row.merge_when_pipeline_succeeds,
      blocking_discussions_resolved,
      first_contribution: firsts.has(row.id),
      head_pipeline_id: pipeline?.id ?? null,
      time_estimate: row.time_estimate,
      total_time_spent: known?.total_time_spent ?? 0,
      prepared_at: isoTime(row.prepared_at),
      created_at: isoTime(row.created_at),
      updated_at: isoTime(row.updated_at),
      updated_by_id: row.updated_by_id,
      last_edited_at: isoTime(row.last_edited_at),
      last_edited_by_id: row.last_edited_by_id,
      assignee_ids: [...(known?.assignee_ids ?? [])],
      reviewer_ids: [...(known?.reviewer_ids ?? [])],
      labels: (labels.get(row.id) ?? []).map(hookLabel),
    };
  });
};

/** Emits an event of the merge request as it is in this transaction. `oldrev`: the head before new commits. */
export const emitMergeRequest = async (
  tx: Tx,
  kind: EventDefinition<MergeRequestPayload>,
  project: ProjectRow,
  row: MergeRequestRow,
  changes: Changes,
  oldrev?: string,
): Promise<void> => {
  const [snapshot] = await snapshotsOf(tx, [{ row, project }]);
  if (snapshot) emitSnapshot(tx, kind, project, snapshot, changes, oldrev);
};

/** Emits who has approved, or whose approvals are gone. */
export const emitApproval = async (
  tx: Tx,
  kind: EventDefinition<ApprovalPayload>,
  project: ProjectRow,
  row: MergeRequestRow,
  approval: Pick<ApprovalPayload, 'user_ids' | 'is_decisive' | 'system_action'>,
): Promise<void> => {
  const [snapshot] = await snapshotsOf(tx, [{ row, project }]);
  if (!snapshot) return;
  tx.emit(kind, {
    ...scopeOf(project, snapshot),
    payload: { merge_request: snapshot, changes: {}, by_id: tx.actor.userId, ...approval },
  });
};

/** The same for a snapshot that was read with others. */
export const emitSnapshot = (
  tx: Tx,
  kind: EventDefinition<MergeRequestPayload>,
  project: ProjectRow,
  snapshot: MergeRequestSnapshot,
  changes: Changes,
  oldrev?: string,
): void => {
  tx.emit(kind, {
    ...scopeOf(project, snapshot),
    payload: { merge_request: snapshot, changes, by_id: tx.actor.userId, ...(oldrev === undefined ? {} : { oldrev }) },
  });
};

const scopeOf = (project: ProjectRow, { id }: MergeRequestSnapshot) => ({
  ...projectScope(project),
  min_access_level: isOpenForReview(project) ? null : REPORTER,
  subject: { type: 'MergeRequest', id },
});
