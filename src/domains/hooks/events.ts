import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { ALERT_STATUSES } from './model.ts';

const hook = z.object({
  id: z.number(),
  namespace_id: z.number().nullable(),
  project_id: z.number().nullable(),
  name: z.string(),
  /** Masked. */
  url: z.string(),
});

export const webhookCreated = defineEvent('webhook.created', hook);
/** Names what changed, never to what: much of a hook is secret. */
export const webhookUpdated = defineEvent('webhook.updated', hook.extend({ changed: z.array(z.string()) }));
export const webhookDeleted = defineEvent('webhook.deleted', hook);

const status = z.enum(ALERT_STATUSES);
/** Its receiver failed too often, or is well again. */
export const webhookAlertStatusChanged = defineEvent(
  'webhook.alert_status_changed',
  hook.extend({
    previous: status,
    current: status,
    disabled_until: z.string().nullable(),
    recent_failures: z.number(),
  }),
);
