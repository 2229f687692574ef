import { z } from 'zod';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';

const label = z.object({
  id: z.number(),
  title: z.string(),
  color: z.string(),
  description: z.string().nullable(),
  project_id: z.number().nullable(),
  group_id: z.number().nullable(),
});
export type LabelPayload = z.output<typeof label>;

const part = { ability: 'read_label' } as const;

export const labelCreated = defineEvent('label.created', label, { part });
export const labelUpdated = defineEvent('label.updated', label.extend({ changes: changesSchema }), { part });
export const labelDeleted = defineEvent('label.deleted', label, { part });
