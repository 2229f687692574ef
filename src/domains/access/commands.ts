import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';

/**
 * Updates the effective access of the namespaces, of everything below them, and of everything shared with them. Call it
 * in the transaction that changed a membership, a share or a namespace's place in the tree. `userIds` limits the work
 * to these users; leave it out when all users may be affected.
 */
export const refreshAccess = async (
  tx: Tx,
  namespaceIds: readonly number[],
  userIds?: readonly number[],
): Promise<void> => {
  await sql`select refresh_namespace_access(${namespaceIds}::bigint[], ${userIds ?? null}::bigint[])`.execute(tx.db);
};
