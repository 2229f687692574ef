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

/**
 * Waits for other transactions that take an Owner away from one of these top-level groups, until this one ends. Call it
 * before checking that another Owner is left: two Owners who go at the same moment must not both find the other one. A
 * lock of the groups would deadlock with the lock of an account.
 */
export const lockOwners = async (tx: Tx, groupIds: readonly number[]): Promise<void> => {
  await sql`
    select pg_advisory_xact_lock(hashtextextended('groups.owners:' || id, 0))
    from (select unnest(${groupIds}::bigint[]) as id order by id) owned`.execute(tx.db);
};
