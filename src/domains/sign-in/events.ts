import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const session = z.object({
  id: z.number(),
  user_id: z.number(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
});

/** Somebody signed in. */
export const sessionCreated = defineEvent('session.created', session);

/** A session ended before its time: its person signed out, or ended it from another one, or the password changed. */
export const sessionRevoked = defineEvent('session.revoked', session);

const secondFactor = z.object({ user_id: z.number() });

export const twoFactorEnabled = defineEvent('two_factor.enabled', secondFactor);
/** By the user, or by an administrator for somebody who lost theirs. */
export const twoFactorDisabled = defineEvent('two_factor.disabled', secondFactor);
