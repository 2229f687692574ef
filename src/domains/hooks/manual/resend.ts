import type { Container, ContainerAddress } from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import { unprocessable } from '#platform/errors.ts';
import type { Outcome } from '../delivery/send.ts';
import { type AttemptRow, getAttempt, getAttemptById } from '../history/attempts.ts';
import { getDelivery } from '../history/deliveries.ts';
import { getHookContainer } from '../policy.ts';
import { getHook, getHookById, type HookRow } from '../queries.ts';
import { limitManual, recordNow, sendNow } from './sending.ts';

/**
 * Sends the request of an attempt again at once, under the same Idempotency-Key, even if the hook is disabled.
 *
 * @throws `not_found`, `forbidden`, `too_many_requests`, `unprocessable` if the URL has changed, or the body is gone or
 * the caller may not read it
 */
export const resendAttempt = async (
  ctx: Context,
  at: ContainerAddress,
  hookId: number,
  attemptId: number,
): Promise<Outcome> => {
  const container = await getHookContainer(ctx, at);
  const hook = await getHook(ctx, container, hookId);
  return (await resend(ctx, container, hook, await getAttempt(ctx, hook.id, attemptId))).outcome;
};

/** Does the same given only the attempt's id. Returns the new attempt. @throws as `resendAttempt` */
export const resendAttemptById = async (ctx: Context, attemptId: number): Promise<AttemptRow> => {
  const attempt = await getAttemptById(ctx, attemptId);
  const { container, hook } = await getHookById(ctx, attempt.webhook_id);
  return getAttemptById(ctx, (await resend(ctx, container, hook, attempt)).attemptId);
};

const resend = async (ctx: Context, container: Container, hook: HookRow, { delivery_id, request_url }: AttemptRow) => {
  if (request_url !== hook.url) throw unprocessable('The URL of the hook has changed since then');
  const delivery = await getDelivery(ctx, delivery_id);
  if (delivery.body === null)
    throw unprocessable('There is nothing to send: the body could not be built, or you may not read it');
  await limitManual(ctx, container, 'resend');
  const attempt = delivery.attempts + 1;
  const { id, trigger, chain_id: chainId } = delivery;
  const outcome = await sendNow(ctx, hook, { id, attempt, trigger, chainId, body: Buffer.from(delivery.body) });
  const attemptId = await ctx.transaction((tx) =>
    recordNow(tx, container, { deliveryId: id, webhookId: hook.id, attempt, trigger, outcome }),
  );
  return { outcome, attemptId };
};
