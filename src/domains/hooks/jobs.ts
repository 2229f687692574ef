import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';

const BATCH = 2_000;

/**
 * The job `hooks.sweep`: what waited longer than deliveries are kept is expired, and what is older than that, and done,
 * is forgotten with its attempts and payloads.
 */
export const sweepDeliveries = defineJob({
  name: 'hooks.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/10 * * * *',
  run: async (ctx) => {
    const days = (await getSettings(ctx)).webhook_delivery_retention_days;
    await repeat(ctx, () => expire(ctx, days));
    await repeat(ctx, () => forget(ctx, days));
  },
});

/** In small steps, each its own transaction: a large one would hold up deliveries. */
const repeat = async (ctx: Context, step: () => Promise<number>): Promise<void> => {
  do ctx.signal.throwIfAborted();
  while ((await step()) >= BATCH);
};

const expire = async (ctx: Context, days: number): Promise<number> => {
  const { numAffectedRows } = await sql`
    update webhook_deliveries set state = 'expired', finished_at = now(),
      last_error = coalesce(last_error, 'Expired before it could be sent')
    where id in (
      select d.id from webhook_payloads p join webhook_deliveries d on d.payload_id = p.id
      where p.created_at < now() - make_interval(days => ${days}) and d.created_at < now() - make_interval(days => ${days})
        and d.state in ('waiting', 'held')
      limit ${sql.lit(BATCH)} for update of d skip locked
    )`.execute(ctx.db);
  return Number(numAffectedRows ?? 0);
};

/** A day longer, so that what has expired can be seen. Deliveries and attempts go with their payload. */
const forget = async (ctx: Context, days: number): Promise<number> => {
  const { numAffectedRows } = await sql`
    delete from webhook_payloads where id in (
      select p.id from webhook_payloads p
      where p.created_at < now() - make_interval(days => ${days + 1})
        and not exists (
          select from webhook_deliveries d where d.payload_id = p.id and d.state in ('waiting', 'held', 'sending'))
      order by p.created_at limit ${sql.lit(BATCH)}
    )`.execute(ctx.db);
  return Number(numAffectedRows ?? 0);
};
