import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { mailSecurityNotice } from './account-mails.ts';
import { passwordChanged } from './events.ts';
import { endMailTokens } from './mail-tokens.ts';

/**
 * Sets a user's password by its digest (`hashPassword`). Lifts a lock after wrong passwords, ends mailed links that set
 * a password, and notifies the user by mail and event. The caller ends the sessions.
 */
export const setPassword = async (
  tx: Tx,
  userId: number,
  digest: string,
  { changeRequired = false }: { readonly changeRequired?: boolean } = {},
): Promise<void> => {
  await tx.db
    .updateTable('users')
    .set({
      password_hash: digest,
      password_change_required: changeRequired,
      password_changed_at: sql`now()`,
      failed_attempts: 0,
      locked_until: null,
      updated_at: sql`now()`,
    })
    .where('id', '=', userId)
    .execute();
  await endMailTokens(tx, 'reset_password', userId);
  tx.emit(passwordChanged, {
    subject: { type: 'User', id: userId },
    user_ids: [userId],
    payload: { user_id: userId, change_required: changeRequired },
  });
  await mailSecurityNotice(tx, userId, {
    subject: 'Your password was changed',
    what: 'The password of your account was changed.',
  });
};
