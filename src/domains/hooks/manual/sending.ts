import { sql } from 'kysely';
import type { ContainerOrInstance } from '#domains/planning/container.ts';
import { hookPolicy } from '#domains/settings/outbound.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError, notFound, tooManyRequests, unprocessable } from '#platform/errors.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { applyFindings } from '../delivery/health.ts';
import { type Attempt, emitAttempts, loggedColumns } from '../delivery/record.ts';
import { type Outcome, type Outgoing, sendDelivery } from '../delivery/send.ts';
import { loadTargets } from '../delivery/targets.ts';
import { type HookRow, idOfOwner } from '../queries.ts';

const SECONDS = 60;

/**
 * Counts a manual test or resend against the caller's limit for the group or project (reference: webhooks §1). Tests
 * and resends have separate counters.
 *
 * @throws `too_many_requests`
 */
export const limitManual = async (
  ctx: Context,
  container: ContainerOrInstance,
  what: 'test' | 'resend',
): Promise<void> => {
  const { web_hook_manual_limit: limit } = await getSettings(ctx);
  if (limit === 0) return;
  const key = `hooks.${what}:${container.kind}:${idOfOwner(container)}:${ctx.actor.userId ?? 0}`;
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
  const outcome = await sendDelivery(ctx.services, target, outgoing, await hookPolicy(ctx, target), ctx.signal);
  if (outcome.aborted) throw new DomainError('unavailable', 'The request was aborted');
  return outcome;
};

/**
 * Records the outcome and returns the id of the log row. A success finishes the delivery, unless another process is
 * sending it, and enables the hook. A failure changes neither.
 */
export const recordNow = async (
  tx: Tx,
  container: ContainerOrInstance,
  attempt: Omit<Attempt, 'delayMs' | 'createdAt'>,
): Promise<number> => {
  const logged = loggedColumns(attempt);
  const { delivered } = attempt.outcome;
  const { rows } = await sql<{ id: number }>`
    with queued as materialized (
      select state from webhook_queue where delivery_id = ${attempt.deliveryId} for update
    ), ended as (
      delete from webhook_queue
      where delivery_id = ${attempt.deliveryId} and ${delivered}::boolean and (select state from queued) <> 'sending'
    ), counted as (
      update webhook_queue set attempts = greatest(attempts, ${attempt.attempt}::int)
      where delivery_id = ${attempt.deliveryId} and not (${delivered}::boolean and (select state from queued) <> 'sending')
    ), done as (
      update webhook_deliveries set
        attempts = greatest(attempts, ${attempt.attempt}::int),
        last_response_status = ${logged.response_status}::int,
        last_error = ${logged.error}::text,
        state = case when finished then 'delivered' else state end,
        finished_at = case when finished then now() else finished_at end
      from (select ${delivered}::boolean and coalesce((select state from queued) <> 'sending', true) as finished) found
      where id = ${attempt.deliveryId}
      returning id as delivery_id, created_at as delivery_created_at, payload_id
    )
    insert into webhook_attempts (delivery_id, delivery_created_at, payload_id, webhook_id, attempt, trigger, request_url,
      request_headers, request_body, response_status, response_headers, response_body, duration_ms, error)
    select done.*, given.*
    from json_to_record(${toJsonb(logged)}::json) as given (webhook_id bigint, attempt int, trigger text,
      request_url text, request_headers json, request_body text, response_status int, response_headers json,
      response_body text, duration_ms int, error text), done
    returning id`.execute(tx.db);
  const [row] = rows;
  // Deleted meanwhile.
  if (!row) throw notFound('Delivery');
  emitAttempts(tx, [{ id: attempt.webhookId, ...whereabouts(container), attempt_ids: [row.id] }]);
  if (delivered)
    await applyFindings(tx, [
      { webhook_id: attempt.webhookId, succeeded: true, failures: 0, probe: true, gone: false, revives: true },
    ]);
  return row.id;
};

const whereabouts = (owner: ContainerOrInstance) => {
  if (owner.kind === 'instance') return { project_id: null, namespace_ids: [] };
  return owner.kind === 'group'
    ? { project_id: null, namespace_ids: owner.group.traversal_ids }
    : { project_id: owner.project.id, namespace_ids: owner.project.namespace.traversal_ids };
};
