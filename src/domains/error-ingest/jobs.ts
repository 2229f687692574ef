import { sql } from 'kysely';
import { z } from 'zod';
import type { Context, Services } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { digestBatch } from './digest.ts';

/** How long one run goes on, so that other jobs get their turn. */
const RUN_MS = 5_000;

interface Run {
  running: Promise<void> | null;
  isAnotherWaiting: boolean;
}
const runs = new WeakMap<Services, Run>();

/**
 * The job `error_ingest.digest` reads what applications have reported until nothing waits, the oldest of each project
 * first. A process runs it once at a time: a second run waits for the first, and further ones leave their work to the
 * second.
 */
export const digestEnvelopes = defineJob({
  name: 'error_ingest.digest',
  input: z.object({}).strict(),
  maxAttempts: 25,
  // For envelopes whose job was given up.
  cron: '* * * * *',
  run: async (ctx) => {
    const run = runs.get(ctx.services) ?? { running: null, isAnotherWaiting: false };
    runs.set(ctx.services, run);
    if (run.running) {
      if (run.isAnotherWaiting) return;
      run.isAnotherWaiting = true;
      await run.running.catch(() => undefined);
      run.isAnotherWaiting = false;
    }
    const running = digestAll(ctx);
    run.running = running;
    try {
      await running;
    } finally {
      if (run.running === running) run.running = null;
    }
  },
});

/** Two batches at a time: one is read while the other is recorded. */
const digestAll = async (ctx: Context): Promise<void> => {
  const until = performance.now() + RUN_MS;
  const digestSome = async (): Promise<boolean> => {
    while (await digestBatch(ctx)) {
      ctx.signal.throwIfAborted();
      if (performance.now() > until) return true;
    }
    return false;
  };
  const [first, second] = await Promise.all([digestSome(), digestSome()]);
  if (!first && !second) return;
  await ctx.transaction(async (tx) => tx.enqueue(digestEnvelopes, {}, { key: digestEnvelopes.name }));
};

const FAILURE_DAYS = 14;
const COUNT_DAYS = 90;

/**
 * The job `error_ingest.clean` adds up the counts of minutes to counts of hours, and removes old counts and envelopes
 * that could not be digested.
 */
export const cleanIngest = defineJob({
  name: 'error_ingest.clean',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '17 * * * *',
  run: async ({ db }) => {
    await sql`
      with minutes as (
        delete from ingest_counts where start < date_trunc('hour', now()) - interval '1 hour'
          and start <> date_trunc('hour', start)
        returning *
      )
      insert into ingest_counts as c (project_id, key_id, start, events, others, refused, invalid, failed, dropped)
      select project_id, key_id, date_trunc('hour', start), sum(events), sum(others), sum(refused), sum(invalid), sum(failed),
        sum(dropped)
      from minutes group by 1, 2, 3 order by 1, 3, 2
      on conflict (project_id, start, key_id) do update set
        events = c.events + excluded.events, others = c.others + excluded.others,
        refused = c.refused + excluded.refused, invalid = c.invalid + excluded.invalid,
        failed = c.failed + excluded.failed, dropped = c.dropped + excluded.dropped`.execute(db);
    await sql`delete from ingest_counts where start < now() - make_interval(days => ${COUNT_DAYS})`.execute(db);
    await sql`delete from ingest_failures where failed_at < now() - make_interval(days => ${FAILURE_DAYS})`.execute(db);
  },
});
