import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const account = z.object({
  id: z.number(),
  username: z.string(),
  name: z.string(),
  /** Null for one of the instance. */
  group_id: z.number().nullable(),
});

/** Owners of the group hear of them. What becomes of the account itself the `user` events tell. */
export const serviceAccountCreated = defineEvent('service_account.created', account);
export const serviceAccountUpdated = defineEvent('service_account.updated', account);
export const serviceAccountDeleted = defineEvent('service_account.deleted', account);
