import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

/** The OAuth application through which something was created, and the user who authorised it. */
export const originPayload = z.object({
  application_id: z.number().nullable(),
  application_name: z.string().nullable(),
  authorized_by_id: z.number(),
});

const token = z.object({
  id: z.number(),
  user_id: z.number(),
  name: z.string(),
  scopes: z.array(z.string()),
  expires_at: z.string().nullable(),
  created_by_id: z.number().nullable(),
  origin: originPayload.nullable(),
});

export const tokenCreated = defineEvent('token.created', token);
export const tokenRevoked = defineEvent('token.revoked', token);
