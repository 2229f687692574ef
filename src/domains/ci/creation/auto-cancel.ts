import { sql } from 'kysely';
import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { DANGLING_SOURCES } from '../model.ts';
import { cancelRows, ownJobs } from '../processing/rows.ts';
import { lockPipeline, processPipeline } from '../processing.ts';

/** Older pipelines are left alone (reference: ci §2). */
const MAX_AGE = '7 days';
const MAX_PIPELINES = 1_000;

/**
 * The job `ci.cancel_redundant`: cancels older pipelines of the same branch, tag or merge request for other commits, as
 * far as their `workflow:auto_cancel:on_new_commit` says. Their child pipelines follow them.
 */
export const cancelRedundant = defineJob({
  name: 'ci.cancel_redundant',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    const { rows } = await sql<{ id: number }>`
      select old.id from pipelines old join pipelines fresh
        on fresh.project_id = old.project_id and fresh.ref = old.ref and fresh.tag = old.tag
      where fresh.id = ${id} and old.id < fresh.id and old.sha <> fresh.sha
        and old.status in ('created', 'waiting_for_resource', 'preparing', 'waiting_for_callback', 'pending', 'running',
          'scheduled')
        and old.auto_cancel_on_new_commit <> 'none'
        and not old.source = any (${[...DANGLING_SOURCES]}::text[])
        and old.created_at > now() - ${sql.lit(MAX_AGE)}::interval
      order by old.id desc limit ${MAX_PIPELINES}`.execute(ctx.db);
    for (const old of rows) {
      await ctx.transaction(async (tx) => {
        const pipeline = await lockPipeline(tx, old.id);
        if (!pipeline) return;
        const jobs = await ownJobs(tx, pipeline);
        const conservative = pipeline.auto_cancel_on_new_commit === 'conservative';
        const hasStarted = jobs.some((job) => job.kind === 'build' && !job.interruptible && job.started_at !== null);
        if (conservative && hasStarted) return;
        const ids = conservative ? 'all' : jobs.flatMap((job) => (job.interruptible ? job.id : []));
        const changed = await cancelRows(tx, pipeline, ids);
        if (changed.length === 0) return;
        await tx.db.updateTable('pipelines').set({ auto_canceled_by_id: id }).where('id', '=', old.id).execute();
        await processPipeline(tx, pipeline, { changed });
      });
    }
  },
});
