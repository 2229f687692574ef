import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import { webhookDeliveryUpdated } from '../events.ts';
import { MIN_ATTEMPTS, RETRY_HOURS } from '../model.ts';
import { LEAST_ROLES } from '../policy.ts';
import type { Outcome } from './send.ts';

export interface Attempt {
  readonly deliveryId: string;
  readonly webhookId: number;
  readonly attempt: number;
  readonly trigger: string;
  readonly outcome: Outcome;
  /** The delay before the next attempt if this one failed. */
  readonly delayMs: number;
}

const isOver = sql<boolean>`(given.attempt >= ${sql.lit(MIN_ATTEMPTS)}
  and d.retries_from + interval '${sql.raw(String(RETRY_HOURS))} hours' < now() + given.delay_ms * interval '1 ms')`;

/**
 * Records the outcome of many attempts in one statement: one log row each, and the new state of each delivery
 * (delivered, waiting for a retry, or expired after three days). Skips deliveries that this process no longer owns
 * because they were released or the hook was deleted. Returns the log rows by hook.
 */
export const recordAttempts = async (
  db: Database,
  processId: string,
  attempts: readonly Attempt[],
): Promise<readonly RecordedHook[]> => {
  const { rows } = await sql<RecordedHook>`
    with given as materialized (
      select * from json_to_recordset(${toJsonb(attempts.map(attemptRow))}::json) as (
        delivery_id uuid, webhook_id bigint, attempt int, trigger text, request_url text, request_headers jsonb,
        request_body text, response_status int, response_headers jsonb, response_body text, duration_ms int, error text,
        delivered boolean, delay_ms float8)
    ), done as (
      update webhook_deliveries d set
        state = case
          when given.delivered then 'delivered'
          when ${isOver} then 'expired'
          else 'waiting' end,
        attempts = given.attempt,
        claimed_by = null,
        next_attempt_at = now() + given.delay_ms * interval '1 ms',
        last_response_status = given.response_status,
        last_error = given.error,
        finished_at = case when given.delivered or ${isOver} then now() end
      from given
      where d.id = any (${attempts.map(({ deliveryId }) => deliveryId)}::uuid[]) and d.id = given.delivery_id
        and d.state = 'sending' and d.claimed_by = ${processId}
      returning given.*
    ), logged as (
      insert into webhook_attempts (delivery_id, webhook_id, attempt, trigger, request_url, request_headers,
        request_body, response_status, response_headers, response_body, duration_ms, error)
      select delivery_id, webhook_id, attempt, trigger, request_url, request_headers, request_body, response_status,
        response_headers, response_body, duration_ms, error
      from done
      returning id, webhook_id
    )
    select h.*, logged.attempt_ids
    from (select webhook_id, array_agg(id order by id) as attempt_ids from logged group by webhook_id) logged
    cross join lateral (
      select h.id, h.project_id, ${namespaceIdsOf} as namespace_ids from webhooks h
      where h.id = logged.webhook_id offset 0
    ) h`.execute(db);
  return rows;
};

/** A hook with its location and the ids of its new log rows. */
export interface RecordedHook {
  readonly id: number;
  readonly project_id: number | null;
  readonly namespace_ids: readonly number[];
  readonly attempt_ids: readonly number[];
}

/** SQL: the namespaces that contain the hook `h`, outermost first. */
export const namespaceIdsOf = sql<number[]>`(
  select n.traversal_ids from namespaces n
  where n.id = coalesce(h.namespace_id, (select p.namespace_id from projects p where p.id = h.project_id)))`;

/**
 * Emits events about new log rows. They carry only ids, because each subscriber reads the rows with their own rights.
 */
export const tellOfAttempts = (tx: Tx, hooks: readonly RecordedHook[]): void => {
  for (const { id, project_id, namespace_ids, attempt_ids } of hooks)
    tx.emit(webhookDeliveryUpdated, {
      subject: { type: 'Webhook', id },
      project_id,
      namespace_ids,
      min_access_level: LEAST_ROLES[project_id === null ? 'group' : 'project'],
      payload: { id, attempt_ids: [...attempt_ids] },
    });
};

export const attemptRow = ({ deliveryId, webhookId, attempt, trigger, outcome, delayMs }: Attempt) => ({
  delivery_id: deliveryId,
  webhook_id: webhookId,
  attempt,
  trigger,
  request_url: outcome.url,
  request_headers: outcome.requestHeaders,
  request_body: outcome.requestBody,
  response_status: outcome.status,
  response_headers: outcome.responseHeaders,
  response_body: outcome.responseBody,
  duration_ms: outcome.durationMs,
  error: outcome.error,
  delivered: outcome.delivered,
  delay_ms: delayMs,
});
