import { type Clock, today } from '#platform/clock.ts';
import { invalid } from '#platform/errors.ts';

/**
 * Checks the day on which a membership or share shall end. It is not valid on that day any more, so today would end it
 * before it begins.
 *
 * @throws DomainError `invalid`
 */
export const checkExpiry = (ctx: { readonly clock: Clock }, expiresAt: string | null | undefined): void => {
  if (!expiresAt || expiresAt > today(ctx.clock)) return;
  const problem = expiresAt < today(ctx.clock) ? 'cannot be a date in the past' : 'must be after today';
  throw invalid({ expires_at: [problem] });
};
