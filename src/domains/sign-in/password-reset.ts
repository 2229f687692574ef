import { getSettings } from '#domains/settings/queries.ts';
import { passwordErrors } from '#domains/users/attributes.ts';
import { findMailToken, takeMailToken } from '#domains/users/mail-tokens.ts';
import { hashPassword, MAX_PASSWORD_LENGTH } from '#domains/users/password.ts';
import { setPassword } from '#domains/users/set-password.ts';
import type { Context } from '#platform/context.ts';
import { invalid, requireValid, tooLong } from '#platform/errors.ts';
import { endSessions } from './sessions.ts';

/** Whether the token from a mail can still set a password. Does not use the token up. */
export const canResetPassword = async (ctx: Context, token: string): Promise<boolean> =>
  (await findMailToken(ctx, 'reset_password', token)) !== null;

/**
 * Sets the password of the user that the token was mailed to. Works once and ends all their sessions. Access tokens
 * stay valid. This does not sign the user in, and their next sign-in still requires the second factor.
 *
 * @throws `invalid` for a bad token (reset_password_token), or by attribute
 */
export const resetPassword = async (ctx: Context, token: string, password: string): Promise<void> => {
  const { minimum_password_length } = await getSettings(ctx);
  // Checked before the password is hashed, because hashing is expensive and anyone can send a token.
  if (!(await canResetPassword(ctx, token))) throw badToken();
  const errors =
    password.length > MAX_PASSWORD_LENGTH
      ? { password: [tooLong(MAX_PASSWORD_LENGTH)] }
      : passwordErrors(password, minimum_password_length);
  requireValid(errors);
  const digest = await hashPassword(password);
  await ctx.transaction(async (tx) => {
    const taken = await takeMailToken(tx, 'reset_password', token);
    if (!taken) throw badToken();
    await setPassword(tx, taken.user_id, digest);
    await endSessions(tx, taken.user_id);
  });
};

const badToken = () => invalid({ reset_password_token: ['is invalid or has expired'] });
