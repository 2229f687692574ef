import { notAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';

/** Requires an administrator. Only they can use custom attributes. */
export const requireAdministrator = ({ actor }: Pick<Context, 'actor'>): void => {
  if (actor.isAdmin) return;
  throw actor.userId === null ? unauthenticated() : notAdministrator(actor);
};
