import type { Tx } from '#platform/context.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { webUrl } from '#platform/urls.ts';
import { issueMailToken } from '../mail-tokens.ts';

/**
 * Mails the user a link to set a new password. It works once, for six hours. `email` must be an address as it is stored
 * with the account, never one from a request.
 */
export const sendPasswordReset = async (
  tx: Tx,
  user: { readonly id: number; readonly username: string; readonly email: string },
): Promise<void> => {
  const { value, hours } = await issueMailToken(tx, 'reset_password', { user_id: user.id, email: user.email });
  sendMail(tx, {
    to: user.email,
    subject: 'Set a new password',
    text: `Hello ${user.username},

a new password can be set for your account within ${hours} hours:

${webUrl(tx, `users/password/edit?reset_password_token=${value}`)}

If you did not ask for this, do nothing: the password stays as it is.
`,
  });
};
