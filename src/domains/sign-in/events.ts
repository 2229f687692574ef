import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

/** A session, as events describe it. */
const sessionPayload = z.object({
  id: z.number(),
  user_id: z.number(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
});

/** A user signed in. */
export const sessionCreated = defineEvent('session.created', sessionPayload);

/** A session was ended before it expired: by its user, by a new password, or because the account was closed. */
export const sessionRevoked = defineEvent('session.revoked', sessionPayload);

const adminMode = z.object({ id: z.number(), user_id: z.number() });

/** An administrator authenticated again in this session, and may administer for a while. */
export const adminModeEntered = defineEvent('admin_mode.entered', adminMode);
export const adminModeLeft = defineEvent('admin_mode.left', adminMode);

const secondFactor = z.object({ user_id: z.number() });

export const twoFactorEnabled = defineEvent('two_factor.enabled', secondFactor);
/** Disabled by the user, or by an administrator when the user lost it. */
export const twoFactorDisabled = defineEvent('two_factor.disabled', secondFactor);
