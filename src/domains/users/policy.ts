import type { Actor, Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';

/** How much of a user is shown (specification 2 §2.1); each view holds the ones before it. */
export type UserView = 'public' | 'signed_in' | 'self' | 'administrator';

/** The one place that decides what the caller may see of a user; both faces ask here. */
export const userView = (actor: Actor, user: { readonly id: number; readonly private_profile: boolean }): UserView => {
  if (actor.isAdmin) return 'administrator';
  if (actor.userId === null) return 'public';
  if (actor.userId === user.id) return 'self';
  return user.private_profile ? 'public' : 'signed_in';
};

const ORDER: readonly UserView[] = ['public', 'signed_in', 'self', 'administrator'];

/** Whether `view` shows what `least` shows. */
export const viewIncludes = (view: UserView, least: UserView): boolean => ORDER.indexOf(view) >= ORDER.indexOf(least);

/** Throws `forbidden` for everyone but administrators, `unauthenticated` for those who have not said who they are. */
export const requireAdministrator = ({ actor }: Pick<Context, 'actor'>): void => {
  if (actor.isAdmin) return;
  throw actor.userId === null ? unauthenticated() : forbidden();
};

/** The caller's own id; throws `unauthenticated` when there is no caller. */
export const requireUser = ({ actor }: Pick<Context, 'actor'>): number => {
  if (actor.userId === null) throw unauthenticated();
  return actor.userId;
};

/** Whether the caller is an OAuth application, or comes with a credential that one made. */
export const isApplication = ({ actor }: Pick<Context, 'actor'>): boolean =>
  (actor.credential?.originId ?? null) !== null;
