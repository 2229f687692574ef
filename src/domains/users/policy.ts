import type { Actor, Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';

/** How much of a user is shown (specification 2 §2.1). Each view includes the ones before it. */
const VIEWS = ['public', 'signed_in', 'self', 'administrator'] as const;
export type UserView = (typeof VIEWS)[number];

/** Decides what the caller may see of a user, for REST and GraphQL alike. */
export const userView = (actor: Actor, user: { readonly id: number; readonly private_profile: boolean }): UserView => {
  if (actor.isAdmin) return 'administrator';
  if (actor.userId === null) return 'public';
  if (actor.userId === user.id) return 'self';
  return user.private_profile ? 'public' : 'signed_in';
};

/** Whether `view` includes everything that `least` shows. */
export const viewIncludes = (view: UserView, least: UserView): boolean => VIEWS.indexOf(view) >= VIEWS.indexOf(least);

/** Returns the caller's id. @throws `unauthenticated` for anonymous callers */
export const requireUser = ({ actor }: Pick<Context, 'actor'>): number => {
  if (actor.userId === null) throw unauthenticated();
  return actor.userId;
};

/** Returns the id if it is the caller's own. @throws `unauthenticated` for anonymous callers, `forbidden` for others */
export const ownId = (ctx: Pick<Context, 'actor'>, userId: number): number => {
  if (requireUser(ctx) !== userId) throw forbidden();
  return userId;
};

/** Whether the caller is an OAuth application or uses a credential that one created. */
export const isApplication = ({ actor }: Pick<Context, 'actor'>): boolean =>
  (actor.credential?.originId ?? null) !== null;
