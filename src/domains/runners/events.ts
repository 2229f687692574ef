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

/**
 * Events of runners are for owners of the group, and for maintainers of the project that owns the runner. Those of
 * instance runners are for administrators.
 */
export const runnerCreated = defineEvent('runner.created', runner);

/**
 * The runner's token ended before it expired, because the OAuth application that created the runner lost its access.
 */
export const runnerTokenEnded = defineEvent('runner.token_ended', runner);

/** Names the attributes that changed. */
export const runnerUpdated = defineEvent('runner.updated', runner.extend({ changes: z.array(z.string()) }));

/** The runner got a new authentication token, and the old one ended. */
export const runnerTokenReset = defineEvent('runner.token_reset', runner);

export const runnerDeleted = defineEvent('runner.deleted', runner);

/** The registration token of a group, a project or the instance was replaced. */
export const registrationTokenReset = defineEvent(
  'runner.registration_token_reset',
  z.object({ namespace_id: z.number().nullable(), project_id: z.number().nullable() }),
);
