import type { Tx } from '#platform/context.ts';
import { conflict } from '#platform/errors.ts';

/**
 * Throws `conflict` unless someone else is an administrator whose account is open. Locks all administrators: two who
 * remove or block each other at once must not both succeed.
 */
export const requireAnotherAdministrator = async (tx: Tx, id: number): Promise<void> => {
  const administrators = await tx.db
    .selectFrom('users')
    .select(['id', 'state'])
    .where('is_admin', '=', true)
    .orderBy('id')
    .forUpdate()
    .execute();
  if (!administrators.some((each) => each.id !== id && each.state === 'active')) {
    throw conflict('The last administrator has to stay one');
  }
};
