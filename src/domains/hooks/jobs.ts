import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { dropPartitions } from '#platform/db/partitions.ts';
import { defineJob } from '#platform/jobs.ts';
import { isoTime } from '#platform/time.ts';
import { DELIVERY_TABLES, ensureDeliveryPartitions } from './delivery/partitions.ts';

const BATCH = 2_000;

/**
 * The job `hooks.sweep`: expires unsent deliveries after the retention time, drops the partitions that are a day older,
 * so that people can see what expired, and deletes what is left of deleted hooks.
 */
export const sweepDeliveries = defineJob({
  name: 'hooks.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/10 * * * *',
  run: async (ctx) => {
    const days = (await getSettings(ctx)).webhook_delivery_retention_days;
    await ensureDeliveryPartitions(ctx);
    await repeat(ctx, () => expire(ctx, days));
    const oldest = await oldestKept(ctx, days);
    for (const table of DELIVERY_TABLES) await dropPartitions(ctx, table, oldest);
    await forgetDeletedHooks(ctx);
  },
});

/** Works in small steps, each in its own transaction, so that deliveries are not blocked for long. */
const repeat = async (ctx: Context, step: () => Promise<number>): Promise<void> => {
  do ctx.signal.throwIfAborted();
  while ((await step()) >= BATCH);
};

const expire = async (ctx: Context, days: number): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    with ended as (
      delete from webhook_queue where delivery_id in (
        select delivery_id from webhook_queue
        where created_at < now() - make_interval(days => ${days}) and state in ('waiting', 'held')
        limit ${sql.lit(BATCH)} for update skip locked)
      returning delivery_id, created_at
    ), expired as (
      update webhook_deliveries d set state = 'expired', finished_at = now(),
        last_error = coalesce(last_error, 'Expired before it could be sent')
      from ended where d.id = ended.delivery_id and d.created_at = ended.created_at
    )
    select count(*) as count from ended`.execute(ctx.db);
  return rows[0]?.count ?? 0;
};

/** A delivery that is being sent keeps its partition. */
const oldestKept = async (ctx: Context, days: number): Promise<Date> => {
  const { rows } = await sql<{ oldest: string }>`
    select least(now() - make_interval(days => ${days + 1}), (select min(created_at) from webhook_queue)) as oldest`.execute(
    ctx.db,
  );
  return new Date(isoTime(rows[0]?.oldest ?? '1970-01-01 00:00:00+00'));
};

/** Nothing shows these rows any more. Finds the hooks by jumping through the index from one to the next. */
const forgetDeletedHooks = async (ctx: Context): Promise<void> => {
  await sql`delete from webhook_queue q where not exists (select from webhooks h where h.id = q.webhook_id)`.execute(
    ctx.db,
  );
  const { rows } = await sql<{ id: number }>`
    with recursive known (id) as (
      (select webhook_id from webhook_deliveries order by webhook_id limit 1)
      union all
      select (select d.webhook_id from webhook_deliveries d where d.webhook_id > known.id order by d.webhook_id limit 1)
      from known where known.id is not null
    )
    select id from known where id is not null and not exists (select from webhooks h where h.id = known.id)`.execute(
    ctx.db,
  );
  const gone = rows.map(({ id }) => id);
  if (gone.length === 0) return;
  await repeat(ctx, async () => {
    const { numAffectedRows } = await sql`
      delete from webhook_attempts where (id, delivery_created_at) in (
        select id, delivery_created_at from webhook_attempts where webhook_id = any (${gone}::bigint[])
        limit ${sql.lit(BATCH)})`.execute(ctx.db);
    return Number(numAffectedRows ?? 0);
  });
  await repeat(ctx, async () => {
    const { numAffectedRows } = await sql`
      delete from webhook_deliveries where (id, created_at) in (
        select id, created_at from webhook_deliveries where webhook_id = any (${gone}::bigint[])
        limit ${sql.lit(BATCH)})`.execute(ctx.db);
    return Number(numAffectedRows ?? 0);
  });
};
