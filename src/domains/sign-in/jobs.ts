import { sql } from 'kysely';
import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';

/** The job `sessions.sweep`: deletes expired sessions. They are refused as soon as they expire. */
export const sweepSessions = defineJob({
  name: 'sessions.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '47 * * * *',
  run: async ({ db }) => {
    await db.deleteFrom('sessions').where('expires_at', '<=', sql<string>`now()`).execute();
  },
});
