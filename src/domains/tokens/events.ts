import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const token = z.object({
  id: z.number(),
  user_id: z.number(),
  name: z.string(),
  scopes: z.array(z.string()),
  expires_at: z.string().nullable(),
});

export const tokenCreated = defineEvent('token.created', token);
export const tokenRevoked = defineEvent('token.revoked', token);
