import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';

/** Notes on the account that its person signed in now, from where the request came. */
export const recordSignIn = async (tx: Tx, userId: number): Promise<void> => {
  await sql`
    update users set sign_in_count = sign_in_count + 1, last_activity_on = current_date,
      last_sign_in_at = coalesce(current_sign_in_at, now()), last_sign_in_ip = coalesce(current_sign_in_ip, ${tx.client.ip}),
      current_sign_in_at = now(), current_sign_in_ip = ${tx.client.ip}
    where id = ${userId}`.execute(tx.db);
};
