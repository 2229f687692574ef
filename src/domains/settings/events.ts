import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

/** Names the settings that changed, never their values, because some are secrets. */
export const settingsUpdated = defineEvent('settings.updated', z.object({ changed: z.array(z.string()) }));
