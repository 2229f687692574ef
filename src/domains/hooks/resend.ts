import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, notFound, unprocessable } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import {
  type AttemptRow,
  type DeliveryRow,
  getAttempt,
  getAttemptById,
  getDelivery,
  getNewestAttempt,
} from './deliveries.ts';
import { applyFindings } from './delivery/health.ts';
import { attemptRow } from './delivery/record.ts';
import { type Outcome, sendDelivery } from './delivery/send.ts';
import { loadTargets } from './delivery/targets.ts';
import { addressPolicy } from './policy.ts';
import { getHook, getHookById, getHookGroup, type HookRow } from './queries.ts';

const PER_MINUTE = 5;

/**
 * Sends what an attempt sent once more, now, under the same Idempotency-Key, also when the hook is disabled.
 *
 * @throws `not_found`, `forbidden`, `too_many_requests`, `unprocessable` where the URL is another since, or the body is gone
 */
export const resendAttempt = async (
  ctx: Context,
  groupId: IdOrPath,
  hookId: number,
  attemptId: number,
): Promise<Outcome> => {
  const group = await getHookGroup(ctx, groupId);
  const hook = await getHook(ctx, group, hookId);
  return resend(ctx, hook, await getAttempt(ctx, hook.id, attemptId));
};

/** The same by the id of the attempt alone; gives the attempt that was made. @throws as `resendAttempt` */
export const resendAttemptById = async (ctx: Context, attemptId: number): Promise<AttemptRow> => {
  const attempt = await getAttemptById(ctx, attemptId);
  const { hook } = await getHookById(ctx, attempt.webhook_id);
  await resend(ctx, hook, attempt);
  return getNewestAttempt(ctx, attempt.delivery_id);
};

const resend = async (ctx: Context, hook: HookRow, attempt: AttemptRow): Promise<Outcome> => {
  if (attempt.request_url !== hook.url) throw unprocessable('The URL of the hook is another since then');
  return send(ctx, hook, await getDelivery(ctx, attempt.delivery_id));
};

const send = async (ctx: Context, hook: HookRow, delivery: DeliveryRow): Promise<Outcome> => {
  if ((await getSettings(ctx)).silent_mode_enabled) throw unprocessable('Silent mode is on: nothing is sent');
  if (delivery.body === null) throw unprocessable('There is nothing to send: the body could not be built');
  await limit(ctx, hook);
  const target = (await loadTargets(ctx.services, ctx.db, [hook.id])).get(hook.id);
  if (!target) throw notFound('Hook');
  if (target instanceof Error) throw unprocessable(target.message);
  const outgoing = {
    id: delivery.id,
    attempt: delivery.attempts + 1,
    trigger: delivery.trigger,
    chainId: delivery.chain_id,
    body: Buffer.from(delivery.body),
  };
  const outcome = await sendDelivery(ctx.services, target, outgoing, await addressPolicy(ctx), ctx.signal);
  if (outcome.aborted) throw new DomainError('unavailable', 'The request was given up');
  await record(ctx, hook, delivery, outcome);
  return outcome;
};

/** Five in a minute for each user and group (reference: webhooks §1). */
const limit = async (ctx: Context, hook: HookRow): Promise<void> => {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from webhook_attempts a
    where a.requested_by_id = ${ctx.actor.userId} and a.created_at > now() - interval '1 minute'
      and a.webhook_id in (
        select w.id from webhooks w where w.namespace_id = ${hook.namespace_id} or w.project_id = ${hook.project_id}
      )`.execute(ctx.db);
  if ((rows[0]?.count ?? 0) >= PER_MINUTE)
    throw new DomainError('too_many_requests', 'This endpoint has been requested too many times. Try again later.', {
      retryAfterSeconds: 60,
    });
};

/** A success ends the delivery, whatever state it was in; a failure leaves it where it was. */
const record = async (ctx: Context, hook: HookRow, delivery: DeliveryRow, outcome: Outcome): Promise<void> => {
  const attempt = delivery.attempts + 1;
  const row = attemptRow({
    deliveryId: delivery.id,
    webhookId: hook.id,
    attempt,
    trigger: delivery.trigger,
    outcome,
    delayMs: 0,
  });
  const { delivered, delay_ms: _, ...logged } = row;
  await sql`
    with done as (
      update webhook_deliveries set
        attempts = greatest(attempts, ${attempt}::int),
        last_response_status = ${outcome.status}::int,
        last_error = ${outcome.error}::text,
        state = case when ${delivered}::boolean and state <> 'sending' then 'delivered' else state end,
        finished_at = case when ${delivered}::boolean then now() else finished_at end
      where id = ${delivery.id}
      returning id
    )
    insert into webhook_attempts (delivery_id, webhook_id, attempt, trigger, request_url, request_headers, request_body,
      response_status, response_headers, response_body, duration_ms, error, requested_by_id)
    select given.*, ${ctx.actor.userId}::bigint
    from json_to_record(${toJsonb(logged)}::json) as given (delivery_id uuid, webhook_id bigint, attempt int, trigger text,
      request_url text, request_headers jsonb, request_body text, response_status int, response_headers jsonb,
      response_body text, duration_ms int, error text), done`.execute(ctx.db);
  if (delivered)
    await applyFindings(ctx, [{ webhook_id: hook.id, succeeded: true, failures: 0, probe: true, gone: false }]);
};
