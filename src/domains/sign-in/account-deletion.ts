import { getSettings } from '#domains/settings/queries.ts';
import { getUser } from '#domains/users/queries.ts';
import { removeAccount } from '#domains/users/removal.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { type Proof, proven } from './enrolment.ts';
import { verifySecondFactor } from './two-factor.ts';

/**
 * Deletes the caller's own account, as an administrator would (`deleteUser`). Requires the password, and a code if the
 * account has a second factor. The user gets a mail.
 *
 * @throws `forbidden` while the setting `allow_account_deletion` is off; `invalid` when the password or code is wrong;
 * `conflict` for the only owner of a group and the last administrator; `too_many_requests`
 */
export const deleteOwnAccount = async (ctx: Context, { password, code }: Proof): Promise<void> => {
  if (!(await getSettings(ctx)).allow_account_deletion) throw forbidden(DELETION_DISABLED);
  await proven(ctx, password, async (tx, userId) => {
    const { email, username, confirmed_at, two_factor_enabled } = await getUser(tx, userId);
    if (two_factor_enabled && !(await verifySecondFactor(tx, userId, code))) return null;
    await removeAccount(tx, userId, { hardDelete: false });
    if (confirmed_at !== null) {
      const text = `Hello ${username},\n\nyour account was deleted, with your projects and tokens. If this was not you, tell your administrator.\n`;
      sendMail(tx, { to: email, subject: 'Your account was deleted', text });
    }
    return true;
  });
};

export const DELETION_DISABLED = 'Only administrators can delete accounts on this hub.';
