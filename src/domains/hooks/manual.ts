import { sql } from 'kysely';
import type { Container } from '#domains/planning/container.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError, notFound, tooManyRequests, unprocessable } from '#platform/errors.ts';
import { hit } from '#platform/rate-limit.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import { applyFindings } from './delivery/health.ts';
import { type Attempt, attemptRow, tellOfAttempts } from './delivery/record.ts';
import { type Outcome, type Outgoing, sendDelivery } from './delivery/send.ts';
import { loadTargets } from './delivery/targets.ts';
import { addressPolicy } from './policy.ts';
import { containerColumn, type HookRow } from './queries.ts';

const SECONDS = 60;

/**
 * Counts a manual test or resend against the caller's limit for the group or project (reference: webhooks §1). Tests
 * and resends have separate counters.
 *
 * @throws `too_many_requests`
 */
export const limitManual = async (ctx: Context, container: Container, what: 'test' | 'resend'): Promise<void> => {
  const { web_hook_manual_limit: limit } = await getSettings(ctx);
  if (limit === 0) return;
  const { id } = containerColumn(container);
  const key = `hooks.${what}:${container.kind}:${id}:${ctx.actor.userId ?? 0}`;
  const { allowed, retryAfterSeconds } = await hit(ctx.services, key, { limit, seconds: SECONDS });
  if (!allowed) throw tooManyRequests(retryAfterSeconds);
};

/**
 * Sends a request while the caller waits, even if the hook is disabled.
 *
 * @throws `unprocessable` in silent mode or if the hook's secrets cannot be read, `unavailable` if the caller
 * disconnected
 */
export const sendNow = async (ctx: Context, hook: HookRow, outgoing: Outgoing): Promise<Outcome> => {
  if ((await getSettings(ctx)).silent_mode_enabled) throw unprocessable('Silent mode is on, so nothing is sent');
  const target = (await loadTargets(ctx.services, ctx.db, [hook.id])).get(hook.id);
  if (!target) throw notFound('Hook');
  if (target instanceof Error) throw unprocessable(target.message);
  const outcome = await sendDelivery(ctx.services, target, outgoing, await addressPolicy(ctx), ctx.signal);
  if (outcome.aborted) throw new DomainError('unavailable', 'The request was aborted');
  return outcome;
};

/**
 * Records the outcome and returns the id of the log row. A success finishes the delivery, unless another process is
 * sending it, and enables the hook. A failure changes neither.
 */
export const recordNow = async (
  tx: Tx,
  container: Container,
  attempt: Omit<Attempt, 'delayMs'>,
  actorId: number | null,
): Promise<number> => {
  const { delivered, delay_ms: _, ...logged } = attemptRow({ ...attempt, delayMs: 0 });
  const { rows } = await sql<{ id: number }>`
    with done as (
      update webhook_deliveries set
        attempts = greatest(attempts, ${attempt.attempt}::int),
        last_response_status = ${logged.response_status}::int,
        last_error = ${logged.error}::text,
        state = case when ${delivered}::boolean and state <> 'sending' then 'delivered' else state end,
        finished_at = case when ${delivered}::boolean and state <> 'sending' then now() else finished_at end
      where id = ${attempt.deliveryId}
      returning id
    )
    insert into webhook_attempts (delivery_id, webhook_id, attempt, trigger, request_url, request_headers, request_body,
      response_status, response_headers, response_body, duration_ms, error, requested_by_id)
    select given.*, ${actorId}::bigint
    from json_to_record(${toJsonb(logged)}::json) as given (delivery_id uuid, webhook_id bigint, attempt int, trigger text,
      request_url text, request_headers jsonb, request_body text, response_status int, response_headers jsonb,
      response_body text, duration_ms int, error text), done
    returning id`.execute(tx.db);
  const [row] = rows;
  // Deleted meanwhile.
  if (!row) throw notFound('Delivery');
  tellOfAttempts(tx, [{ id: attempt.webhookId, ...whereabouts(container), attempt_ids: [row.id] }]);
  if (delivered)
    await applyFindings(tx, [
      { webhook_id: attempt.webhookId, succeeded: true, failures: 0, probe: true, gone: false, revives: true },
    ]);
  return row.id;
};

const whereabouts = (container: Container) =>
  container.kind === 'group'
    ? { project_id: null, namespace_ids: container.group.traversal_ids }
    : { project_id: container.project.id, namespace_ids: container.project.namespace.traversal_ids };
