import type { Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';

/** Custom attributes are for administrators alone. */
export const requireAdministrator = ({ actor }: Pick<Context, 'actor'>): void => {
  if (actor.isAdmin) return;
  throw actor.userId === null ? unauthenticated() : forbidden();
};
