import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { apiUrl, webUrl } from '#platform/urls.ts';
import { APPROVALS_PATH } from '../model.ts';
import type { UserRow } from '../queries.ts';

/** Mails all administrators that an account waits for their approval. */
export const askForApproval = async (tx: Tx, { id, username, email, confirmed_at }: UserRow): Promise<void> => {
  const administrators = await tx.db
    .selectFrom('users')
    .select(['email', 'username'])
    .where('is_admin', '=', true)
    .where('state', '=', 'active')
    .where('user_type', '=', 'human')
    .where('confirmed_at', 'is not', null)
    .execute();
  for (const administrator of administrators) {
    sendMail(tx, {
      to: administrator.email,
      subject: `${username} is waiting for approval`,
      text: `Hello ${administrator.username},

${username} (${email}${confirmed_at === null ? ', unconfirmed' : ''}) has registered and cannot sign in until an administrator approves the account.

Approve or reject it:

${webUrl(tx, APPROVALS_PATH.slice(1))}

With the API:
approve it: POST ${apiUrl(tx, `users/${id}/approve`)}
reject it, which deletes it: POST ${apiUrl(tx, `users/${id}/reject`)}
`,
    });
  }
};

/** Mails the user that an administrator approved or rejected the account. The mail goes to an unconfirmed address too. */
export const mailDecision = (tx: Tx, { email, username }: UserRow, decision: 'approved' | 'rejected'): void => {
  const text =
    decision === 'approved'
      ? `your account ${username} was approved. You can sign in now: ${webUrl(tx, 'users/sign_in')}`
      : `your account ${username} was not approved, and was deleted.`;
  sendMail(tx, { to: email, subject: `Your account was ${decision}`, text: `Hello ${username},\n\n${text}\n` });
};

/** Mails the user that the account was deactivated, if the setting `user_deactivation_emails_enabled` is on. */
export const mailDeactivated = async (tx: Tx, { email, username, user_type, confirmed_at }: UserRow): Promise<void> => {
  if (user_type !== 'human' || confirmed_at === null) return;
  if (!(await getSettings(tx)).user_deactivation_emails_enabled) return;
  sendMail(tx, {
    to: email,
    subject: 'Your account was deactivated',
    text: `Hello ${username},

your account was deactivated. Your projects and tokens are kept, but the tokens do not work. Sign in to reactivate it:

${webUrl(tx, 'users/sign_in')}
`,
  });
};
