import type { Tx } from '#platform/context.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { webUrl } from '#platform/urls.ts';

/**
 * Mails the user, at the primary address, that the security of the account has changed. `what` is a whole sentence.
 * Accounts with an unconfirmed address get no mail.
 */
export const mailSecurityNotice = async (
  tx: Tx,
  userId: number,
  { subject, what, to }: { readonly subject: string; readonly what: string; readonly to?: string },
): Promise<void> => {
  const user = await tx.db
    .selectFrom('users')
    .select(['email', 'username', 'confirmed_at', 'user_type'])
    .where('id', '=', userId)
    .executeTakeFirst();
  if (!user || user.confirmed_at === null || user.user_type !== 'human') return;
  sendMail(tx, {
    to: to ?? user.email,
    subject,
    text: `Hello ${user.username},

${what}

If this was not you, set a new password at once: ${webUrl(tx, 'users/password/new')}
Then tell your administrator.
`,
  });
};
