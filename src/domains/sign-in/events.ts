import { z } from 'zod';
import { sessionPayload } from '#domains/users/events.ts';
import { defineEvent } from '#platform/events.ts';

/** A user signed in. */
export const sessionCreated = defineEvent('session.created', sessionPayload);

const secondFactor = z.object({ user_id: z.number() });

export const twoFactorEnabled = defineEvent('two_factor.enabled', secondFactor);
/** Disabled by the user, or by an administrator when the user lost it. */
export const twoFactorDisabled = defineEvent('two_factor.disabled', secondFactor);
