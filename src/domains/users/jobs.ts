import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { deactivateDormant } from './states.ts';

/** The job `users.deactivate_dormant`: runs every night. It does nothing unless the settings enable it. */
export const deactivateDormantUsers = defineJob({
  name: 'users.deactivate_dormant',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '20 3 * * *',
  run: deactivateDormant,
});
