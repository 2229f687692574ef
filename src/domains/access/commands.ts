import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';

/**
 * Brings the effective access of the namespaces and everything below them up to date, and of what is shared with
 * them. To be called in the transaction that changed a membership, a share, or a namespace's place in the tree.
 * `userIds` limits the work to the people concerned; leave it out when all may be.
 */
export const refreshAccess = async (
  tx: Tx,
  namespaceIds: readonly number[],
  userIds?: readonly number[],
): Promise<void> => {
  await sql`select refresh_namespace_access(${namespaceIds}::bigint[], ${userIds ?? null}::bigint[])`.execute(tx.db);
};
