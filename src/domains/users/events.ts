import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { userBody } from './webhook.ts';

const user = z.object({ id: z.number(), username: z.string(), name: z.string(), state: z.string() });

/** The user that an event is about. */
export type UserPayload = z.output<typeof user>;

const value = z.union([z.string(), z.number(), z.boolean(), z.null()]);

/** Only system hooks receive events of users. */
const trigger = () => 'user_events';

export const userCreated = defineEvent('user.created', user, { trigger, body: userBody('user_create') });

/** Names every attribute that changed. For a password it says only that it changed. */
export const userUpdated = defineEvent(
  'user.updated',
  user.extend({ changes: z.record(z.string(), z.object({ previous: value, current: value })) }),
);

const deleted = user.extend({ namespace_id: z.number().nullable() });
/** The user's personal projects and OAuth applications are deleted too, with an event for each. */
export const userDeleted = defineEvent<z.output<typeof deleted>>('user.deleted', deleted, {
  trigger,
  body: userBody('user_destroy'),
});

/** An account moved to another state. `state` is the new one. */
export const userBlocked = defineEvent('user.blocked', user);
export const userUnblocked = defineEvent('user.unblocked', user);
export const userBanned = defineEvent('user.banned', user);
export const userUnbanned = defineEvent('user.unbanned', user);
export const userActivated = defineEvent('user.activated', user);
export const userDeactivated = defineEvent('user.deactivated', user);
export const userApproved = defineEvent('user.approved', user);
/** An administrator rejected a pending account. `user.deleted` follows. */
export const userRejected = defineEvent('user.rejected', user);
/** An administrator lifted the lock after too many wrong passwords. */
export const userUnlocked = defineEvent('user.unlocked', user);

const follow = z.object({ id: z.number(), follower_id: z.number() });
export const userFollowed = defineEvent('user.followed', follow);
export const userUnfollowed = defineEvent('user.unfollowed', follow);

const address = z.object({ user_id: z.number(), email: z.string() });

export const emailAdded = defineEvent('email.added', address);
export const emailRemoved = defineEvent('email.removed', address);
/** `primary`: whether it is now the primary address. */
export const emailConfirmed = defineEvent('email.confirmed', address.extend({ primary: z.boolean() }));

/** `version` is the digest of the text. */
export const termsAccepted = defineEvent('terms.accepted', z.object({ user_id: z.number(), version: z.string() }));

/** Never carries the old or the new password. */
export const passwordChanged = defineEvent(
  'password.changed',
  z.object({ user_id: z.number(), change_required: z.boolean() }),
);
