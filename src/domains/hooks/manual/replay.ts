import { sql } from 'kysely';
import type { ContainerAddress } from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { conflict, unprocessable } from '#platform/errors.ts';
import { hookPayload } from '../change.ts';
import { DELIVERIES_CHANNEL } from '../delivery/insert.ts';
import { webhookDeliveriesReplayed, webhookDeliveryCanceled } from '../events.ts';
import { type DeliveryRow, getHookDelivery } from '../history/deliveries.ts';
import { TEST_KIND } from '../model.ts';
import { getHookContainer, hookScope, payloadIsReadable } from '../policy.ts';
import { getHook } from '../queries.ts';
import { limitManual } from './sending.ts';

/** All finished deliveries in a time range, or those that failed since a time. Times are ISO 8601. */
export type ReplayRange =
  | { readonly created_after: string; readonly created_before: string | null }
  | { readonly failed_since: string };

const MAX_REPLAYED = 100_000;

/**
 * Sends deliveries again, in order and under the same Idempotency-Key. With a time range: all finished ones, whatever
 * their outcome. With `failed_since`: those that expired or are waiting for a retry. Their three days of retries start
 * over. Skips tests, and deliveries that the caller may not read. Returns how many are replayed.
 *
 * @throws `not_found`, `forbidden`, `too_many_requests`, `unprocessable` if there are more than 100,000
 */
export const replayDeliveries = async (
  ctx: Context,
  at: ContainerAddress,
  hookId: number,
  range: ReplayRange,
): Promise<number> => {
  const container = await getHookContainer(ctx, at);
  const hook = await getHook(ctx, container, hookId);
  await limitManual(ctx, container, 'resend');
  const wanted =
    'failed_since' in range
      ? sql`(d.state = 'expired' or (q.state = 'waiting' and q.attempts > 0))
          and (greatest(d.created_at, d.finished_at) >= ${range.failed_since}::timestamptz or exists (
            select from webhook_attempts a
            where a.delivery_id = d.id and a.delivery_created_at = d.created_at
              and a.created_at >= ${range.failed_since}::timestamptz))`
      : sql`${atOrAfter(sql.ref('d.created_at'), range.created_after)}
          and ${range.created_before === null ? sql`d.created_at <= now()` : atOrBefore(sql.ref('d.created_at'), range.created_before)}
          and d.state in ('delivered', 'expired', 'canceled', 'dropped')`;
  return ctx.transaction(async (tx) => {
    const { rows } = await sql<{ count: number }>`
      with found as materialized (
        select d.id, d.created_at, d.payload_id, d.attempts, coalesce(p.moment, '{}') as moment
        from webhook_deliveries d join webhook_payloads p on p.id = d.payload_id and p.created_at = d.created_at
        left join webhook_queue q on q.delivery_id = d.id
        where d.webhook_id = ${hook.id} and ${wanted} and p.body is not null and p.kind <> ${TEST_KIND}
      ), readable as materialized (
        -- Most deliveries are about a few subjects, so equal moments are checked once.
        select moment from (select distinct moment from found) webhook_payloads where ${payloadIsReadable(ctx)}
      ), wanted as materialized (
        select *, row_number() over (order by created_at, id) as n from found join readable using (moment)
        limit ${sql.lit(MAX_REPLAYED + 1)}
      ), replayed as (
        insert into webhook_queue as q (delivery_id, webhook_id, payload_id, created_at, attempts, next_attempt_at)
        select id, ${hook.id}, payload_id, created_at, attempts, now() + n * interval '1 microsecond' from wanted
        on conflict (delivery_id) do update set state = 'waiting', retries_from = now(),
          next_attempt_at = excluded.next_attempt_at
        where q.state <> 'sending'
        returning 1
      ), reopened as (
        update webhook_deliveries d set state = 'open', finished_at = null
        from wanted where d.id = wanted.id and d.created_at = wanted.created_at and d.state <> 'open'
      )
      select count(*) as count, pg_notify(${DELIVERIES_CHANNEL}, '') from replayed`.execute(tx.db);
    const count = rows[0]?.count ?? 0;
    if (count > MAX_REPLAYED)
      throw unprocessable(`There are more than ${MAX_REPLAYED} deliveries to replay. Choose a shorter time range.`);
    tx.emit(webhookDeliveriesReplayed, { ...hookScope(container, hook.id), payload: { ...hookPayload(hook), count } });
    return count;
  });
};

/**
 * Cancels a delivery that is waiting or held. Canceling it again is not an error.
 *
 * @throws `not_found`, `forbidden`, `conflict` if it is being sent or is finished
 */
export const cancelDelivery = async (
  ctx: Context,
  at: ContainerAddress,
  hookId: number,
  deliveryId: string,
): Promise<DeliveryRow> => {
  const container = await getHookContainer(ctx, at);
  const hook = await getHook(ctx, container, hookId);
  await getHookDelivery(ctx, hook.id, deliveryId);
  await ctx.transaction(async (tx) => {
    const { numAffectedRows } = await sql`
      with canceled as (
        delete from webhook_queue where delivery_id = ${deliveryId} and state in ('waiting', 'held')
        returning delivery_id, created_at
      )
      update webhook_deliveries d set state = 'canceled', finished_at = now()
      from canceled where d.id = canceled.delivery_id and d.created_at = canceled.created_at`.execute(tx.db);
    if ((numAffectedRows ?? 0n) > 0n)
      tx.emit(webhookDeliveryCanceled, {
        ...hookScope(container, hook.id),
        payload: { ...hookPayload(hook), delivery_id: deliveryId },
      });
  });
  const delivery = await getHookDelivery(ctx, hook.id, deliveryId);
  if (delivery.state !== 'canceled') throw conflict(`The delivery is ${delivery.state}`);
  return delivery;
};
