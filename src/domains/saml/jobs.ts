import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';

/** The job `saml.sweep`: deletes expired requests. */
export const sweepSamlRequests = defineJob({
  name: 'saml.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/20 * * * *',
  run: async ({ services: { pool } }) => {
    await pool.query('delete from saml_requests where expires_at < now()');
  },
});
