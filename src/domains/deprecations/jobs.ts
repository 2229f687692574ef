import { sql } from 'kysely';
import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { KEPT_DAYS, MAX_ROWS } from './model.ts';

/** The job `deprecations.prune`: deletes old counts of deprecated use. */
export const pruneUses = defineJob({
  name: 'deprecations.prune',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '23 * * * *',
  run: async ({ db }) => {
    await sql`
      delete from deprecated_uses
      where day < current_date - ${KEPT_DAYS}::integer
        or id <= (select id from deprecated_uses order by id desc offset ${MAX_ROWS} limit 1)`.execute(db);
  },
});
