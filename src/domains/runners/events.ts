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

/** Sent to owners of the group or project. For instance runners, sent to administrators. */
export const runnerCreated = defineEvent('runner.created', runner);

/**
 * The runner's token ended before it expired, because the OAuth application that created the runner lost its access.
 */
export const runnerTokenEnded = defineEvent('runner.token_ended', runner);
