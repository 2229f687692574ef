import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { projectBody, projectPayload } from './project-payload.ts';

const user = z.object({ id: z.number(), username: z.string(), name: z.string(), state: z.string() });

/** Who an event is about. */
export type UserPayload = z.output<typeof user>;

const value = z.union([z.string(), z.number(), z.boolean(), z.null()]);

export const userCreated = defineEvent('user.created', user);

/** Names every attribute that changed. A new password is said to have changed, never what it is. */
export const userUpdated = defineEvent(
  'user.updated',
  user.extend({ changes: z.record(z.string(), z.object({ previous: value, current: value })) }),
);

/** The projects in the personal namespace, and the OAuth applications, go with it, an event for each. */
export const userDeleted = defineEvent('user.deleted', user.extend({ namespace_id: z.number().nullable() }));

/** The moves of an account between states; `state` is the one it is in now. */
export const userBlocked = defineEvent('user.blocked', user);
export const userUnblocked = defineEvent('user.unblocked', user);
export const userBanned = defineEvent('user.banned', user);
export const userUnbanned = defineEvent('user.unbanned', user);
export const userActivated = defineEvent('user.activated', user);
export const userDeactivated = defineEvent('user.deactivated', user);
export const userApproved = defineEvent('user.approved', user);
/** Turned down while waiting for approval; `user.deleted` follows. */
export const userRejected = defineEvent('user.rejected', user);
/** Passwords count again before the time was over. */
export const userUnlocked = defineEvent('user.unlocked', user);

const follow = z.object({ id: z.number(), follower_id: z.number() });
export const userFollowed = defineEvent('user.followed', follow);
export const userUnfollowed = defineEvent('user.unfollowed', follow);

const address = z.object({ user_id: z.number(), email: z.string() });

export const emailAdded = defineEvent('email.added', address);
export const emailRemoved = defineEvent('email.removed', address);
/** `primary`: it is the account's own address now. */
export const emailConfirmed = defineEvent('email.confirmed', address.extend({ primary: z.boolean() }));

/** Never what it was or is. */
export const passwordChanged = defineEvent(
  'password.changed',
  z.object({ user_id: z.number(), change_required: z.boolean() }),
);

/** What is told of a session. */
export const sessionPayload = z.object({
  id: z.number(),
  user_id: z.number(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
});

/** A session ended before its time: its person signed out or ended it, the password changed, or the account was closed. */
export const sessionRevoked = defineEvent('session.revoked', sessionPayload);

/** What is told of an OAuth application. */
export const applicationPayload = z.object({
  id: z.number(),
  uid: z.string(),
  name: z.string(),
  owner_id: z.number().nullable(),
  redirect_uris: z.array(z.string()),
  scopes: z.array(z.string()),
  confidential: z.boolean(),
  trusted: z.boolean(),
});

/** On its own or with its owner: so it is defined where both reach it. */
export const applicationDeleted = defineEvent('oauth_application.deleted', applicationPayload);

/** One for each project that went, on its own or with its user or group: so it is defined where all of them reach it. */
export const projectDeleted = defineEvent('project.deleted', projectPayload, {
  trigger: () => 'project_events',
  body: projectBody('project_destroy'),
});
