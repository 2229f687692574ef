import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { conflict } from '#platform/errors.ts';

/**
 * Throws `conflict` unless someone else is an administrator whose account is open. Who asks waits for others who have:
 * two administrators who remove or block each other at once must not both succeed. The rows are not locked for it,
 * each of the two holds the other's already.
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
  if (!another) throw conflict('The last administrator has to stay one');
};
