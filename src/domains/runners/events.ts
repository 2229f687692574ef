import { z } from 'zod';
import { originPayload } from '#domains/tokens/events.ts';
import { defineEvent } from '#platform/events.ts';

const runner = z.object({
  id: z.number(),
  runner_type: z.string(),
  namespace_id: z.number().nullable(),
  project_id: z.number().nullable(),
  description: z.string(),
  creator_id: z.number().nullable(),
  origin: originPayload.nullable(),
});

/** To owners of the group or project; for runners of the whole hub to administrators. */
export const runnerCreated = defineEvent('runner.created', runner);

/** The runner's token has ended before its time, with the OAuth grant of the application that made the runner. */
export const runnerTokenEnded = defineEvent('runner.token_ended', runner);
