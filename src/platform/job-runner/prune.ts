import { sql } from 'kysely';
import { z } from 'zod';
import { defineJob } from '../jobs.ts';

const KEPT_DAYS = 30;

/** The job `jobs.prune`: deletes jobs that were given up long ago, and crash counts of deleted jobs. */
export const pruneJobs = defineJob({
  name: 'jobs.prune',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '41 3 * * *',
  run: async (ctx) => {
    await sql`
      delete from graphile_worker._private_jobs
      where attempts >= max_attempts and locked_at is null
        and updated_at < now() - make_interval(days => ${KEPT_DAYS})`.execute(ctx.db);
    await sql`
      delete from job_crashes
      where not exists (select from graphile_worker._private_jobs where id = job_id)`.execute(ctx.db);
  },
});
