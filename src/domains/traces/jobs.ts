import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Context } from '#platform/context.ts';
import { dropPartitions, ensurePartitions } from '#platform/db/partitions.ts';
import { defineJob } from '#platform/jobs.ts';
import { claimKeys, dropKeys, reserveKeys } from '#platform/storage/removals.ts';
import { DAY_MS, HOUR_MS } from '#platform/values/units.ts';
import { TRACE_CHUNKS } from './commands.ts';
import { readTrace } from './queries.ts';

const BATCH = 100;
const PARALLEL = 4;

interface EndedTrace {
  readonly job_id: number;
  readonly project_id: number;
  readonly size: number;
}

/**
 * The job `traces.archive` copies the traces of jobs that ended two minutes ago from the database to the storage. The
 * chunks go with their partition (`traces.prune`).
 */
export const archiveTraces = defineJob({
  name: 'traces.archive',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/2 * * * *',
  run: async (ctx) => {
    for (let after = 0; !ctx.signal.aborted; ) {
      const { rows } = await sql<EndedTrace>`
        select t.job_id, j.project_id, t.size from job_traces t join jobs j on j.id = t.job_id
        where t.storage_key is null and t.size > 0 and t.job_id > ${after}
          and j.status in ('success', 'failed', 'canceled', 'skipped') and j.updated_at < now() - interval '2 minutes'
        order by t.job_id limit ${sql.lit(BATCH)}`.execute(ctx.db);
      await mapLimit(rows, PARALLEL, (trace) => archive(ctx, trace));
      if (rows.length < BATCH) return;
      after = rows.at(-1)?.job_id ?? after;
    }
  },
});

const archive = async (ctx: Context, { job_id, project_id, size }: EndedTrace): Promise<void> => {
  const key = `traces/${project_id}/${job_id}/${randomUUID()}.log`;
  await reserveKeys(ctx, [key]);
  await ctx.services.storage.write(key, readTrace(ctx, { job_id }, { start: 0, end: size - 1 }), {
    contentType: 'text/plain',
    signal: ctx.signal,
  });
  const isArchived = await ctx.transaction(async (tx) => {
    const { rows } = await sql`
      update job_traces set storage_key = ${key} where job_id = ${job_id} and storage_key is null and size = ${size}
      returning job_id`.execute(tx.db);
    if (rows.length === 0) return false;
    await claimKeys(tx, [key]);
    return true;
  });
  if (!isArchived) await dropKeys(ctx, [key]);
};

/**
 * The job `traces.prune` prepares the partition of the next day, and drops those of former days once all of their traces
 * are archived. Reading an archived trace goes on in its file.
 */
export const pruneTraces = defineJob({
  name: 'traces.prune',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '41 * * * *',
  run: async (ctx) => {
    const now = ctx.clock.now().getTime();
    await ensurePartitions(ctx, TRACE_CHUNKS, [new Date(now), new Date(now + DAY_MS)]);
    const { rows } = await sql<{ oldest: string | null }>`
      select min(c.received_at) as oldest from job_traces t join job_trace_chunks c on c.job_id = t.job_id
      where t.storage_key is null`.execute(ctx.db);
    const live = rows[0]?.oldest;
    await dropPartitions(ctx, TRACE_CHUNKS, new Date(Math.min(now - HOUR_MS, live ? Date.parse(live) : now)));
  },
});
