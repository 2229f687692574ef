import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { sameAddress } from '../addresses.ts';
import type { UserAttributes } from '../attributes.ts';
import { confirmedEmailsOf } from '../emails.ts';

/**
 * Requires that the addresses for the profile and commits are confirmed addresses of the user. Current values may stay.
 *
 * @throws `invalid` (public_email, commit_email)
 */
export const requireConfirmedAddresses = async (
  ctx: Pick<Context, 'db'>,
  user: { readonly id: number; readonly public_email: string; readonly commit_email: string | null },
  { public_email, commit_email }: Pick<UserAttributes, 'public_email' | 'commit_email'>,
): Promise<void> => {
  const wanted = {
    ...(public_email && public_email !== user.public_email ? { public_email } : {}),
    ...(commit_email && commit_email !== '_private' && commit_email !== user.commit_email ? { commit_email } : {}),
  };
  if (Object.keys(wanted).length === 0) return;
  const confirmed = await confirmedEmailsOf(ctx, user.id);
  const strange = Object.entries(wanted).filter(([, email]) => !confirmed.some((own) => sameAddress(own, email)));
  if (strange.length === 0) return;
  throw invalid(Object.fromEntries(strange.map(([name]) => [name, ['is not a confirmed address of the user']])));
};
