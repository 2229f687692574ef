import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { type GroupAbility, requireGroupAbility } from './policy.ts';
import { type GroupRow, getGroup, getNamespace, type NamespaceRow } from './queries.ts';

// A role is checked twice: before a transaction, to answer early, and in it, under a lock. Commands that change members
// or shares lock the namespace and those above it. So no such command runs while these locks are held, and the caller
// keeps the role that a check finds.

/** `shared` locks do not exclude each other. */
export type LockMode = 'alone' | 'shared';

/**
 * Locks the namespace and those above it, in order of id, until the transaction ends. Transactions with `shared` locks
 * do not wait for each other. Returns false if one of the namespaces is gone.
 */
export const lockAncestry = async (
  tx: Tx,
  { traversal_ids }: Pick<NamespaceRow, 'traversal_ids'>,
  mode: LockMode = 'alone',
): Promise<boolean> => {
  const strength = mode === 'alone' ? sql`no key update` : sql`share`;
  const { rows } = await sql`
    select from namespaces where id = any (${traversal_ids}::bigint[]) order by id for ${strength}`.execute(tx.db);
  return rows.length === traversal_ids.length;
};

/**
 * Locks the group and returns its current row if the caller still has the ability.
 *
 * @throws DomainError `not_found` (Group), `unauthenticated`, `forbidden`
 */
export const lockGroupFor = async (tx: Tx, given: GroupRow, ability: GroupAbility): Promise<GroupRow> => {
  await lockAncestry(tx, given);
  const group = await getGroup(tx, { id: given.id });
  requireGroupAbility(tx, group, ability);
  return group;
};

/**
 * Locks the namespace that the caller adds a project or group to, and returns its current row if they still have the
 * ability. Others can add to it at the same time.
 *
 * @throws DomainError `not_found` (Namespace), `unauthenticated`, `forbidden`
 */
export const lockPlaceFor = async (tx: Tx, given: NamespaceRow, ability: GroupAbility): Promise<NamespaceRow> => {
  await lockAncestry(tx, given, 'shared');
  const namespace = await getNamespace(tx, { id: given.id });
  requireGroupAbility(tx, namespace, ability);
  return namespace;
};
