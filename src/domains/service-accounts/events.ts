import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { expiringBody } from './webhook.ts';

const account = z.object({
  id: z.number(),
  username: z.string(),
  name: z.string(),
  /** Null for an account of the instance. */
  group_id: z.number().nullable(),
});

/** Sent to Owners of the group. Changes of the account itself also emit `user` events. */
export const serviceAccountCreated = defineEvent('service_account.created', account);
export const serviceAccountUpdated = defineEvent('service_account.updated', account);
export const serviceAccountDeleted = defineEvent('service_account.deleted', account);

const expiring = z.object({
  id: z.number(),
  user_id: z.number(),
  name: z.string(),
  created_at: z.string(),
  expires_at: z.string(),
  /** Days before expiry. Fewer than the notice period when a day was missed. */
  days: z.number(),
  group_id: z.number().nullable(),
});
export type ExpiringPayload = z.output<typeof expiring>;

/** A token of a service account is about to expire. People get a mail about their tokens instead. */
export const tokenExpiring = defineEvent('token.expiring', expiring, {
  trigger: () => 'resource_access_token_events',
  body: expiringBody,
});
