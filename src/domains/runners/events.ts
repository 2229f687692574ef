import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

/** To owners of the group or project; for runners of the whole hub to administrators. */
export const runnerCreated = defineEvent(
  'runner.created',
  z.object({
    id: z.number(),
    runner_type: z.string(),
    namespace_id: z.number().nullable(),
    project_id: z.number().nullable(),
    description: z.string(),
  }),
);
