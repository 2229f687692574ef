import { z } from 'zod';
import { originPayload } from '#domains/tokens/events.ts';
import { defineEvent } from '#platform/events.ts';
import { ALERT_STATUSES } from './model.ts';

const hook = z.object({
  id: z.number(),
  namespace_id: z.number().nullable(),
  project_id: z.number().nullable(),
  name: z.string(),
  /** With credentials masked. */
  url: z.string(),
});

export const webhookCreated = defineEvent(
  'webhook.created',
  hook.extend({ created_by_id: z.number().nullable(), origin: originPayload.nullable() }),
);
/** Names the changed attributes without values, because many are secret. */
export const webhookUpdated = defineEvent('webhook.updated', hook.extend({ changed: z.array(z.string()) }));
export const webhookDeleted = defineEvent('webhook.deleted', hook);

const status = z.enum(ALERT_STATUSES);
/** The hook was disabled after failures, or enabled again. */
export const webhookAlertStatusChanged = defineEvent(
  'webhook.alert_status_changed',
  hook.extend({
    previous: status,
    current: status,
    disabled_until: z.string().nullable(),
    recent_failures: z.number(),
  }),
);

/** New rows in `webhook_attempts`, by id. */
export const webhookDeliveryUpdated = defineEvent(
  'webhook.delivery_updated',
  z.object({ id: z.number(), attempt_ids: z.array(z.number()) }),
);

/** Deliveries were replayed. `count` is their number. */
export const webhookDeliveriesReplayed = defineEvent('webhook.deliveries_replayed', hook.extend({ count: z.number() }));
export const webhookDeliveryCanceled = defineEvent(
  'webhook.delivery_canceled',
  hook.extend({ delivery_id: z.string() }),
);
