import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { webUrl } from '#platform/urls.ts';
import { mailSecurityNotice } from '../account-mails.ts';
import { requireFreeAddress, sameAddress } from '../addresses.ts';
import { emailConfirmed } from '../events.ts';
import { endMailTokens, findMailToken, issueMailToken, takeMailToken } from '../mail-tokens.ts';

/** Mails the address a confirmation link. `email` must be the address as it is stored with the account. */
export const sendConfirmation = async (tx: Tx, userId: number, email: string): Promise<void> => {
  const { username } = await tx.db
    .selectFrom('users')
    .select('username')
    .where('id', '=', userId)
    .executeTakeFirstOrThrow();
  const { value, hours } = await issueMailToken(tx, 'confirm_email', { user_id: userId, email });
  sendMail(tx, {
    to: email,
    subject: 'Confirm your e-mail address',
    text: `Hello,

please confirm within ${hours / 24} days that this address belongs to the account ${username}:

${webUrl(tx, `users/confirmation?confirmation_token=${value}`)}

If it does not, do nothing.
`,
  });
};

/** Returns the address that the token would confirm, or null. Does not use the token up. */
export const addressToConfirm = async (ctx: Context, token: string): Promise<string | null> =>
  (await findMailToken(ctx, 'confirm_email', token))?.email ?? null;

/**
 * Confirms the address that the token was mailed to: the primary one, a secondary one, or a pending primary one, which
 * becomes primary now. No sign-in is needed, because the token proves access to the mailbox. Returns the address.
 *
 * @throws `invalid` for a bad token, or when another account has confirmed the address in the meantime
 */
export const confirmEmail = (ctx: Context, token: string): Promise<string> =>
  ctx.transaction(async (tx) => {
    const taken = await takeMailToken(tx, 'confirm_email', token);
    const user = taken && (await lockAccount(tx, taken.user_id));
    if (!user) throw badToken();
    const { email } = taken;
    await requireFreeAddress(tx, email, user.id);
    let primary = true;
    if (sameAddress(user.email, email)) {
      await tx.db.updateTable('users').set({ confirmed_at: sql`now()` }).where('id', '=', user.id).execute();
    } else {
      const secondary = await tx.db
        .updateTable('emails')
        .set({ confirmed_at: sql`coalesce(confirmed_at, now())` })
        .where('user_id', '=', user.id)
        .where(sql<boolean>`lower(email) = lower(${email})`)
        .returning('email')
        .executeTakeFirst();
      // The address was removed after the mail was sent.
      if (!secondary) throw badToken();
      primary = user.unconfirmed_email !== null && sameAddress(user.unconfirmed_email, email);
      if (primary) await swapPrimary(tx, user, secondary.email);
      else {
        await mailSecurityNotice(tx, user.id, {
          subject: 'An address of your account was confirmed',
          what: `The e-mail address ${secondary.email} was confirmed and now belongs to your account.`,
        });
      }
    }
    tx.emit(emailConfirmed, {
      subject: { type: 'User', id: user.id },
      user_ids: [user.id],
      payload: { user_id: user.id, email, primary },
    });
    return email;
  });

const badToken = () => invalid({ confirmation_token: ['is invalid or has expired'] });

interface Account {
  readonly id: number;
  readonly email: string;
  readonly confirmed_at: string | null;
  readonly unconfirmed_email: string | null;
}

const lockAccount = async (tx: Tx, userId: number): Promise<Account | undefined> =>
  tx.db
    .selectFrom('users')
    .select(['id', 'email', 'confirmed_at', 'unconfirmed_email'])
    .where('id', '=', userId)
    .forUpdate()
    .executeTakeFirst();

/**
 * Makes an address the primary one, as part of a change of the user. The address must already be a secondary one. A
 * confirmed address becomes primary at once; an unconfirmed one when it is confirmed by mail, or at once with
 * `skipReconfirmation`. The former primary address becomes a secondary one. The caller must have checked the
 * permission.
 *
 * @throws `invalid` (email)
 */
export const makePrimary = async (
  tx: Tx,
  userId: number,
  email: string,
  { skipReconfirmation = false }: { readonly skipReconfirmation?: boolean } = {},
): Promise<void> => {
  const user = await lockAccount(tx, userId);
  if (!user || sameAddress(user.email, email)) return;
  const secondary = await tx.db
    .selectFrom('emails')
    .select(['email', 'confirmed_at'])
    .where('user_id', '=', userId)
    .where(sql<boolean>`lower(email) = lower(${email})`)
    .executeTakeFirst();
  if (!secondary) throw invalid({ email: ['is not an address that was added to the account'] });
  await requireFreeAddress(tx, email, userId);
  if (secondary.confirmed_at !== null || skipReconfirmation) {
    await swapPrimary(tx, user, secondary.email);
    return;
  }
  await tx.db.updateTable('users').set({ unconfirmed_email: secondary.email }).where('id', '=', userId).execute();
  await sendConfirmation(tx, userId, secondary.email);
};

const swapPrimary = async (tx: Tx, user: Account, email: string): Promise<void> => {
  const { id } = user;
  await tx.db
    .deleteFrom('emails')
    .where('user_id', '=', id)
    .where(sql<boolean>`lower(email) = lower(${email})`)
    .execute();
  await mailSecurityNotice(tx, id, {
    subject: 'The address of your account was changed',
    what: `The primary e-mail address of your account is now ${email}.`,
  });
  await tx.db
    .updateTable('users')
    .set({ email, confirmed_at: sql`now()`, unconfirmed_email: null, updated_at: sql`now()` })
    .where('id', '=', id)
    .execute();
  await tx.db
    .insertInto('emails')
    .values({ user_id: id, email: user.email, confirmed_at: user.confirmed_at })
    .execute();
  // Links that were mailed before the change must not work afterwards. The user can request new ones.
  await endMailTokens(tx, 'reset_password', id);
  await endMailTokens(tx, 'confirm_email', id, email);
};
