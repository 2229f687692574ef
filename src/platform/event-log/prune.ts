import { sql } from 'kysely';
import { z } from 'zod';
import type { Context } from '../context.ts';
import { defineJob, type JobDefinition } from '../jobs.ts';

const BATCH = 10_000;
const DAY_MS = 86_400_000;

/**
 * The job `events.prune`: deletes events older than the configured time, oldest first. Never deletes an event that a
 * follower has yet to handle. The log records the last deleted position, so that older cursors are refused.
 */
export const definePruneEvents = (
  retentionDays: (ctx: Context) => number | Promise<number>,
): JobDefinition<Record<string, never>> =>
  defineJob({
    name: 'events.prune',
    input: z.object({}).strict(),
    maxAttempts: 3,
    cron: '17 * * * *',
    run: async (ctx) => {
      const keptSince = new Date(ctx.clock.now().getTime() - (await retentionDays(ctx)) * DAY_MS);
      const until = await findLastToPrune(ctx, keptSince);
      for (let deleted = BATCH; deleted === BATCH && !ctx.signal.aborted; ) deleted = await pruneBatch(ctx, until);
      await sql`delete from event_failures where failed_at < ${keptSince}`.execute(ctx.db);
    },
  });

/** Only a prefix of the log is deleted: everything before the first event that is recent enough or not yet followed. */
const findLastToPrune = async (ctx: Context, keptSince: Date): Promise<number> => {
  const { rows } = await sql<{ until: number }>`
    select least(
      (select coalesce(
        (select position - 1 from events where position is not null and created_at >= ${keptSince} order by position limit 1),
        last_position) from event_log),
      (select min(position) from event_cursors)
    ) as until`.execute(ctx.db);
  return rows[0]?.until ?? 0;
};

const pruneBatch = async (ctx: Context, until: number): Promise<number> => {
  const { rows } = await sql<{ deleted: number }>`
    with doomed as (
      select id, position from events where position <= ${until} order by position limit ${sql.lit(BATCH)}
    ), deleted as (
      delete from events using doomed where events.id = doomed.id returning doomed.position
    ), remembered as (
      update event_log set pruned_position = greatest(pruned_position, (select max(position) from deleted))
      where exists (select from deleted)
    )
    select count(*) as deleted from deleted`.execute(ctx.db);
  return rows[0]?.deleted ?? 0;
};
