import { z } from 'zod';
import { defineFollower } from '#platform/event-log/followers.ts';
import { acceptForUsers } from './invitations.ts';

/** After these events a user may have confirmed an address that was invited. */
const KINDS: ReadonlySet<string> = new Set(['user.created', 'email.confirmed', 'session.created']);

const concerned = z.union([
  z.object({ user_id: z.number() }).transform(({ user_id }) => user_id),
  z.object({ id: z.number() }).transform(({ id }) => id),
]);

/** Accepts invitations to users' public addresses when they register, sign in or confirm an address. */
export const acceptInvitations = defineFollower({
  name: 'members.invitations',
  wants: ({ kind }) => KINDS.has(kind),
  handle: async (tx, events) => {
    await acceptForUsers(tx, [...new Set(events.map(({ payload }) => concerned.parse(payload)))]);
  },
});
