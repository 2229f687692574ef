import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';

const BATCH = 2_000;

/**
 * The job `hooks.sweep`: expires unsent deliveries after the retention time, then deletes finished deliveries with
 * their attempts and payloads.
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

/** Works in small steps, each in its own transaction, so that deliveries are not blocked for long. */
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

/**
 * Keeps payloads a day longer than the retention time, so that people can see what expired. Deletes deliveries and
 * attempts with their payload.
 */
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
