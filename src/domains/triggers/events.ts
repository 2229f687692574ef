import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

// All are for maintainers only, and none carries the token.

const trigger = z.object({
  id: z.number(),
  project_id: z.number(),
  description: z.string(),
  owner_id: z.number().nullable(),
});

export const pipelineTriggerCreated = defineEvent('pipeline_trigger.created', trigger);
export const pipelineTriggerUpdated = defineEvent('pipeline_trigger.updated', trigger);
/** Requests with its token are refused from now on. */
export const pipelineTriggerDeleted = defineEvent('pipeline_trigger.deleted', trigger);
