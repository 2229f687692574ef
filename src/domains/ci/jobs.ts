import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import { findProject } from '#domains/projects/queries.ts';
import { defineJob } from '#platform/jobs.ts';
import { isComplete } from './model.ts';
import { queueStep } from './processing/progress.ts';
import { lockPipeline, lockPipelineOf, processPipeline } from './processing.ts';
import { removePipelineRefs } from './refs.ts';
import { finishJob } from './transitions.ts';

/** The job `ci.start_delayed_job`: starts a delayed job when its time has come. */
export const startDelayedJob = defineJob({
  name: 'ci.start_delayed_job',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) =>
    ctx.transaction(async (tx) => {
      const pipeline = await lockPipelineOf(tx, id);
      if (!pipeline) return;
      const job = await tx.db
        .selectFrom('jobs')
        .select(['id', 'resource_group_id'])
        .where('id', '=', id)
        .where('status', '=', 'scheduled')
        .where('scheduled_at', '<=', sql<string>`now()`)
        .executeTakeFirst();
      if (!job) return;
      await tx.db
        .updateTable('jobs')
        .set({
          status: queueStep(job),
          queued_at: job.resource_group_id === null ? sql`now()` : null,
          scheduled_at: null,
          updated_at: sql`now()`,
        })
        .where('id', '=', id)
        .execute();
      await processPipeline(tx, pipeline, { changed: [id] });
    }),
});

/** The statuses in which a job holds the resource of its group. */
const HOLDING = ['pending', 'preparing', 'waiting_for_callback', 'running', 'canceling'];

/**
 * The job `ci.assign_resource`: gives the free resource of a group to the next job of its queue (reference: ci §8). In
 * the modes `oldest_first` and `newest_first` the resource stays free until that job waits for it.
 */
export const assignResource = defineJob({
  name: 'ci.assign_resource',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) =>
    ctx.transaction(async (tx) => {
      const group = await tx.db
        .selectFrom('resource_groups')
        .select('process_mode')
        .where('id', '=', id)
        // Rows of jobs that refer to the group may be inserted meanwhile.
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (!group) return;
      const upcoming = upcomingIn(group.process_mode);
      const { rows } = await sql<{ id: number; pipeline_id: number; status: string }>`
        select jobs.id, jobs.pipeline_id, jobs.status from jobs
        where jobs.resource_group_id = ${id} and not jobs.retried
          and jobs.status in (${sql.join([...upcoming.statuses])})
          and not exists (select from jobs holder where holder.resource_group_id = ${id}
            and holder.status in (${sql.join(HOLDING)}))
        order by ${upcoming.order}
        limit 1`.execute(tx.db);
      const [next] = rows;
      if (next?.status !== 'waiting_for_resource') return;
      const pipeline = await lockPipeline(tx, next.pipeline_id);
      if (!pipeline) return;
      const taken = await tx.db
        .updateTable('jobs')
        .set({ status: 'pending', queued_at: sql`now()`, updated_at: sql`now()` })
        .where('id', '=', next.id)
        .where('status', '=', 'waiting_for_resource')
        .executeTakeFirst();
      if (taken.numUpdatedRows > 0n) await processPipeline(tx, pipeline, { changed: [next.id] });
      // It was canceled meanwhile, which adds this job again.
    }),
});

/** The jobs of a resource group that may get the resource next, in this order. */
interface Upcoming {
  readonly statuses: readonly string[];
  readonly order: RawBuilder<unknown>;
}

const READY = ['waiting_for_resource'];
const ALL = ['created', 'scheduled', ...READY];
const UNORDERED: Upcoming = { statuses: READY, order: sql`jobs.id` };
const BY_MODE: Readonly<Record<string, Upcoming>> = {
  oldest_first: { statuses: ALL, order: sql`jobs.pipeline_id, jobs.id` },
  newest_first: { statuses: ALL, order: sql`jobs.pipeline_id desc, jobs.id` },
  newest_ready_first: { statuses: READY, order: sql`jobs.pipeline_id desc, jobs.id` },
};

/** Returns which jobs of a resource group may get the resource next, and in which order. */
export const upcomingIn = (processMode: string): Upcoming => BY_MODE[processMode] ?? UNORDERED;

/** The job `ci.end_bridge`: cancels a bridge that waits for a pipeline that was deleted. */
export const endBridge = defineJob({
  name: 'ci.end_bridge',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) =>
    ctx.transaction(async (tx) => {
      await finishJob(tx, id, { status: 'canceled' });
    }),
});

/** The job `ci.drop_refs`: removes the refs of pipelines that have ended (reference: ci §2). */
export const dropPipelineRefs = defineJob({
  name: 'ci.drop_refs',
  input: z.object({ project_id: z.number(), ids: z.array(z.number()) }),
  maxAttempts: 8,
  run: async (ctx, { project_id, ids }) => {
    const project = await findProject(ctx, { id: project_id });
    if (!project) return;
    for (const id of ids) {
      // Under the lock, because a pipeline that is retried needs its ref again.
      await ctx.transaction(async (tx) => {
        const pipeline = await lockPipeline(tx, id);
        if (!pipeline || isComplete(pipeline)) await removePipelineRefs(tx, project, [id]);
      });
    }
  },
});
