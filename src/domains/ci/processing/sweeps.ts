import { sql } from 'kysely';
import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import type { FailureReason } from '../failures.ts';
import { finishJob } from '../transitions.ts';
import { IS_STUCK } from './stuck.ts';

/** Ended by one run. The next run ends the rest. */
const MAX_JOBS = 1_000;

/** Runners end jobs at their timeout. This is for those that were killed, or hang. */
const OVERDUE = sql`interval '10 minutes'`;

/**
 * The job `ci.sweep_jobs`: ends jobs that nothing moves any more (reference: ci §3). Each gets a failure reason, and its
 * pipeline moves on.
 */
export const sweepJobs = defineJob({
  name: 'ci.sweep_jobs',
  input: z.object({}),
  maxAttempts: 1,
  cron: '*/10 * * * *',
  run: async (ctx) => {
    for (const { id, status, failure_reason } of await stuckJobs(ctx)) {
      if (ctx.signal.aborted) return;
      // Its runner may have reported meanwhile.
      await ctx.transaction((tx) => finishJob(tx, id, { status: 'failed', failure_reason }, status));
    }
  },
});

interface StuckJob {
  readonly id: number;
  readonly status: string;
  readonly failure_reason: FailureReason;
}

/**
 * Returns jobs that wait for a runner for a day, or for an hour without an online runner of their project that has their
 * tags; running jobs that were silent for an hour, or longer than their timeout by far; canceled ones whose runner did
 * not answer for 30 minutes; bridges that started no pipeline in an hour; and delayed jobs an hour after their time.
 */
const stuckJobs = async ({ db }: Pick<Context, 'db'>): Promise<StuckJob[]> => {
  const { rows } = await sql<StuckJob>`
    select jobs.id, jobs.status, 'stuck_or_timeout_failure' as failure_reason
    from jobs
    where jobs.status = 'pending' and jobs.kind = 'build' and (jobs.queued_at < now() - interval '24 hours'
      or (jobs.queued_at < now() - interval '1 hour' and ${IS_STUCK}))
    union all
    select id, status, 'stuck_or_timeout_failure' from jobs
    where status = 'running' and kind = 'build' and coalesce(contacted_at, started_at) < now() - interval '1 hour'
    union all
    select id, status, 'job_execution_timeout' from jobs
    where status = 'running' and kind = 'build' and started_at < now() - make_interval(secs => timeout) - ${OVERDUE}
    union all
    select id, status, 'stuck_or_timeout_failure' from jobs
    where status = 'canceling' and updated_at < now() - interval '30 minutes'
    union all
    select id, status, 'stuck_or_timeout_failure' from jobs
    where status = 'pending' and kind = 'bridge' and queued_at < now() - interval '1 hour'
      and not exists (select from pipelines child where child.bridge_job_id = jobs.id)
    union all
    select id, status, 'stale_schedule' from jobs
    where status = 'scheduled' and scheduled_at < now() - interval '1 hour'
    limit ${sql.lit(MAX_JOBS)}`.execute(db);
  return rows;
};
