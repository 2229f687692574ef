import { z } from 'zod';
import { originPayload } from '#domains/tokens/events.ts';
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

export const webhookCreated = defineEvent(
  'webhook.created',
  hook.extend({ created_by_id: z.number().nullable(), origin: originPayload.nullable() }),
);
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

/** Attempts to deliver have been made: `webhook_attempts` by their ids. */
export const webhookDeliveryUpdated = defineEvent(
  'webhook.delivery_updated',
  z.object({ id: z.number(), attempt_ids: z.array(z.number()) }),
);

/** Deliveries were set to be sent again, or not to be sent any more. */
export const webhookDeliveriesReplayed = defineEvent('webhook.deliveries_replayed', hook.extend({ count: z.number() }));
export const webhookDeliveryCanceled = defineEvent(
  'webhook.delivery_canceled',
  hook.extend({ delivery_id: z.string() }),
);
