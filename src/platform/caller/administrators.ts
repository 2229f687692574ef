import type { Actor, Context } from '../context.ts';
import { type DomainError, forbidden, unauthenticated } from '../errors.ts';

const NEEDS_ADMIN_MODE =
  'Admin mode is on. Use a token with the scope admin_mode, or enter admin mode at /admin/session/new.';

/** Returns the refusal of a caller who is not an administrator, or who has not entered admin mode. */
export const notAdministrator = (actor: Actor): DomainError =>
  actor.needsAdminMode ? forbidden(NEEDS_ADMIN_MODE) : forbidden();

/** Requires an administrator. @throws DomainError `forbidden`; `unauthenticated` for anonymous callers */
export const requireAdministrator = ({ actor }: Pick<Context, 'actor'>): void => {
  if (actor.isAdmin) return;
  throw actor.userId === null ? unauthenticated() : notAdministrator(actor);
};
