import { approvalsByIds, removeApprovals } from '#domains/approvals/approvals.ts';
import type { OutdatedApprovals } from '#domains/approvals/of-version.ts';
import { approvalState } from '#domains/approvals/state.ts';
import { recordSystemNote } from '#domains/planning/system-notes.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import type { Tx } from '#platform/context.ts';
import { mergeRequestUnapproved } from './events.ts';
import { getMergeRequest, type MergeRequestRow } from './queries.ts';
import { setReviewState } from './reviewing/reviews.ts';
import { emitApproval } from './snapshot.ts';

/** Removes the approvals of these users with their events. Returns the ids of those who had approved. */
export const withdraw = async (
  tx: Tx,
  project: ProjectRow,
  { id, iid }: Pick<MergeRequestRow, 'id' | 'iid'>,
  userIds: readonly number[],
  system_action?: OutdatedApprovals['system_action'],
): Promise<readonly number[]> => {
  if (userIds.length === 0) return [];
  const before = await approvalState(tx, id);
  const removed = await removeApprovals(tx, id, userIds);
  if (removed.length === 0) return removed;
  await setReviewState(tx, id, removed, 'unapproved');
  await recordSystemNote(tx, { merge_request_id: id }, 'unapproved', await withdrawalNote(tx, removed));
  const after = await approvalState(tx, id);
  await emitApproval(tx, mergeRequestUnapproved, project, await getMergeRequest(tx, project, iid), {
    user_ids: [...removed],
    is_decisive: before?.approved === true && after?.approved === false,
    ...(system_action ? { system_action } : {}),
  });
  return removed;
};

/** The same for all approvals. */
export const withdrawAll = async (
  tx: Tx,
  project: ProjectRow,
  row: Pick<MergeRequestRow, 'id' | 'iid'>,
): Promise<readonly number[]> => {
  const approvals = (await approvalsByIds(tx, [row.id])).get(row.id) ?? [];
  return withdraw(
    tx,
    project,
    row,
    approvals.map(({ user_id }) => user_id),
  );
};

const withdrawalNote = async (tx: Tx, removed: readonly number[]): Promise<string> => {
  if (removed.length === 1 && removed[0] === tx.actor.userId) return 'unapproved this merge request';
  const users = await userSummariesByIds(tx, removed);
  const names = removed.flatMap((id) => users.get(id)?.username ?? []).map((name) => `@${name}`);
  return `revoked approvals from ${names.join(', ')}`;
};
