import { sql } from 'kysely';
import { z } from 'zod';
import { pauseAfter } from '#platform/concurrency/pause.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { deleteArtifacts } from './deleting.ts';

/** Small, so that a batch locks little and dies with little undone. */
const BATCH = 100;
const EXPIRE_BATCH = 1_000;

/** The job `artifacts.expire` deletes artifacts that have expired and are not locked, in batches. */
export const expireArtifacts = defineJob({
  name: 'artifacts.expire',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/7 * * * *',
  long: true,
  run: async (ctx) => {
    for (;;) {
      ctx.signal.throwIfAborted();
      const begin = performance.now();
      if ((await deleteExpired(ctx)) < BATCH) return;
      await pauseAfter(performance.now() - begin, ctx.signal);
    }
  },
});

const deleteExpired = (ctx: Context): Promise<number> =>
  ctx.transaction(async (tx) => {
    const due = sql`id in (
      select id from job_artifacts where expire_at <= now() and not locked
      order by expire_at, id limit ${sql.lit(BATCH)} for update skip locked)`;
    return (await deleteArtifacts(tx, due)).length;
  });

/** The job `artifacts.expire_project` lets the artifacts of a project expire now, and then deletes what has expired. */
export const expireProject = defineJob({
  name: 'artifacts.expire_project',
  input: z.object({ project_id: z.number() }).strict(),
  maxAttempts: 10,
  long: true,
  run: async (ctx, { project_id }) => {
    for (let after = 0; ; ) {
      ctx.signal.throwIfAborted();
      const { rows } = await sql<{ id: number }>`
        update job_artifacts set expire_at = now()
        where id in (
          select id from job_artifacts where project_id = ${project_id} and id > ${after}
            and not locked and (expire_at is null or expire_at > now())
          order by id limit ${sql.lit(EXPIRE_BATCH)})
        returning id`.execute(ctx.db);
      if (rows.length === 0) break;
      after = Math.max(...rows.map(({ id }) => id));
    }
    await ctx.transaction(async (tx) => tx.enqueue(expireArtifacts, {}, { key: expireArtifacts.name }));
  },
});
