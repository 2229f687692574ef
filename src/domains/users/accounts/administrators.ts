import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { conflict } from '#platform/errors.ts';

/**
 * Requires that another administrator has an open account. Calls run one after the other, because two administrators
 * who remove or block each other at once must not both succeed. An advisory lock does this: row locks would deadlock,
 * since each caller already holds the other's row.
 *
 * @throws `conflict`
 */
export const requireAnotherAdministrator = async (tx: Tx, id: number): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtext('users.administrators'))`.execute(tx.db);
  const another = await tx.db
    .selectFrom('users')
    .select('id')
    .where('is_admin', '=', true)
    .where('state', '=', 'active')
    .where('id', '<>', id)
    .limit(1)
    .executeTakeFirst();
  if (!another) throw conflict('The last administrator must remain an administrator');
};
