import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const rule = z.object({
  id: z.number(),
  namespace_id: z.number().nullable(),
  project_id: z.number().nullable(),
});

export const pushRuleCreated = defineEvent('push_rule.created', rule);
export const pushRuleUpdated = defineEvent('push_rule.updated', rule.extend({ changed: z.array(z.string()) }));
export const pushRuleDeleted = defineEvent('push_rule.deleted', rule);
