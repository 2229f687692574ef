import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';

/** The approval of one user. The tip of the source branch and the digest of the changes are those that they approved. */
export interface Approval {
  readonly merge_request_id: number;
  readonly user_id: number;
  readonly created_at: string;
  /** Null if it is unknown, as for imported approvals. */
  readonly head_sha: string | null;
  readonly patch_id: string | null;
}

/** Returns the approvals of merge requests by id, oldest first. Merge requests without approvals are absent. */
export const approvalsByIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly Approval[]>> => {
  const rows = await db
    .selectFrom('merge_request_approvals')
    .select(['merge_request_id', 'user_id', 'created_at', 'head_sha', 'patch_id'])
    .where(sql<boolean>`merge_request_id = any (${ids}::bigint[])`)
    .orderBy('created_at')
    .orderBy('user_id')
    .execute();
  return Map.groupBy(rows, (row) => row.merge_request_id);
};

/** Stores an approval. Returns false if the user has approved already. */
export const addApproval = async (
  tx: Tx,
  approval: Pick<Approval, 'merge_request_id' | 'user_id' | 'head_sha' | 'patch_id'>,
): Promise<boolean> => {
  const added = await tx.db
    .insertInto('merge_request_approvals')
    .values(approval)
    .onConflict((on) => on.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  return added !== undefined;
};

/** Removes the approvals of these users, and returns the ids of those who had approved. */
export const removeApprovals = async (
  tx: Tx,
  mergeRequestId: number,
  userIds: readonly number[],
): Promise<readonly number[]> => {
  const removed = await tx.db
    .deleteFrom('merge_request_approvals')
    .where('merge_request_id', '=', mergeRequestId)
    .where(sql<boolean>`user_id = any (${userIds}::bigint[])`)
    .returning('user_id')
    .execute();
  return removed.map(({ user_id }) => user_id);
};

/** Marks the approvals of these users as given for these changes. */
export const renewApprovals = async (
  tx: Tx,
  mergeRequestId: number,
  userIds: readonly number[],
  changes: Pick<Approval, 'head_sha' | 'patch_id'>,
): Promise<void> => {
  await tx.db
    .updateTable('merge_request_approvals')
    .set(changes)
    .where('merge_request_id', '=', mergeRequestId)
    .where(sql<boolean>`user_id = any (${userIds}::bigint[])`)
    .execute();
};
