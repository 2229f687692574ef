import { sql } from 'kysely';
import { z } from 'zod';
import type { Context } from '../context.ts';
import { dropPartition } from '../db/partitions.ts';
import { defineJob, type JobDefinition } from '../jobs.ts';
import { DAY_MS } from '../values/units.ts';
import { POSITIONS_PER_RANGE } from './ranges.ts';

/** A new range begins after this part of the time that events are kept. Events go at most so much later. */
const RANGES_KEPT = 8;

/**
 * The job `events.prune`: ends the log for readers at the events of the configured time, and drops the ranges of
 * positions (ranges.ts) that are wholly older. It never prunes an event that a follower has yet to handle. The log
 * records the last pruned position, so that older cursors are refused.
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
      const now = ctx.clock.now().getTime();
      const keptMs = (await retentionDays(ctx)) * DAY_MS;
      const keptSince = new Date(now - keptMs);
      await prune(ctx, keptSince);
      await beginRange(ctx, new Date(now - keptMs / RANGES_KEPT));
      await dropRanges(ctx);
      await sql`delete from event_failures where failed_at < ${keptSince}`.execute(ctx.db);
    },
  });

/** Only a prefix of the log is pruned: everything before the first event that is recent enough or not yet followed. */
const prune = (ctx: Context, keptSince: Date) =>
  sql`
    update event_log set pruned_position = greatest(pruned_position, (
      select max(position) from events where position <= least(
        coalesce(
          (select e.position - 1 from events e
            where e.position > pruned_position and e.created_at >= ${keptSince} order by e.position limit 1),
          last_position),
        (select min(c.position) from event_cursors c))))`.execute(ctx.db);

/**
 * Begins a new range once the oldest event of the newest range is older than `since`. Sequencers and writers wait for
 * the lock on the events without a position, so that no event gets a position in the former range afterwards.
 *
 * @throws Error with code 55P03 if transactions in progress hold that lock for longer than a second
 */
const beginRange = (ctx: Context, since: Date): Promise<void> =>
  ctx.transaction(async ({ db, log }) => {
    await sql`set local lock_timeout = '1s'`.execute(db);
    await sql`lock table only events in share update exclusive mode`.execute(db);
    const { rows } = await sql<{ range_start: number }>`
      select range_start from event_log where (
        select created_at from events where position >= range_start order by position limit 1) < ${since}`.execute(db);
    const [current] = rows;
    if (!current) return;
    const start = current.range_start + POSITIONS_PER_RANGE;
    const name = `events_${start / POSITIONS_PER_RANGE}`;
    await sql`
      create table ${sql.id(name)} (like events including defaults including constraints including storage)`.execute(
      db,
    );
    await sql`lock table events_pending in access exclusive mode`.execute(db);
    await sql`
      alter table events attach partition ${sql.id(name)}
      for values from (${sql.lit(start)}) to (${sql.lit(start + POSITIONS_PER_RANGE)})`.execute(db);
    await sql`update event_log set range_start = ${start}`.execute(db);
    log.info({ partition: name }, 'a new range of events was begun');
  });

const dropRanges = async (ctx: Context): Promise<void> => {
  const { rows } = await sql<{ name: string }>`
    select name from event_log, (
      select c.oid::regclass::text as name,
        substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \\(''(.*)''\\)')::bigint as range_end
      from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'events'::regclass) ranges
    where range_end <= range_start
      and not exists (select from events where position > pruned_position and position < range_end)
    order by range_end`.execute(ctx.db);
  for (const { name } of rows) await dropPartition(ctx, name);
};
