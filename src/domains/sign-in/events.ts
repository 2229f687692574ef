import { z } from 'zod';
import { sessionPayload } from '#domains/users/events.ts';
import { defineEvent } from '#platform/events.ts';

/** Somebody signed in. */
export const sessionCreated = defineEvent('session.created', sessionPayload);

const secondFactor = z.object({ user_id: z.number() });

export const twoFactorEnabled = defineEvent('two_factor.enabled', secondFactor);
/** By the user, or by an administrator for somebody who lost theirs. */
export const twoFactorDisabled = defineEvent('two_factor.disabled', secondFactor);
