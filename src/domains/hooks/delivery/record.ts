import { sql } from 'kysely';
import type { Database } from '#platform/db/pool.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import { MIN_ATTEMPTS, RETRY_HOURS } from '../model.ts';
import type { Outcome } from './send.ts';

export interface Attempt {
  readonly deliveryId: string;
  readonly webhookId: number;
  readonly attempt: number;
  readonly trigger: string;
  readonly outcome: Outcome;
  /** How long it rests if it has to be sent again. */
  readonly delayMs: number;
}

const isOver = sql<boolean>`(given.attempt >= ${sql.lit(MIN_ATTEMPTS)}
  and d.created_at + interval '${sql.raw(String(RETRY_HOURS))} hours' < now() + given.delay_ms * interval '1 ms')`;

/**
 * Writes what came of many attempts in one statement: a log row each, and the deliveries done, waiting for their next
 * attempt, or given up after three days. What is no longer this process's to send (freed, its hook deleted) is left out.
 */
export const recordAttempts = async (db: Database, processId: string, attempts: readonly Attempt[]): Promise<void> => {
  await sql`
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
      where d.id = given.delivery_id and d.state = 'sending' and d.claimed_by = ${processId}
      returning d.id
    )
    insert into webhook_attempts (delivery_id, webhook_id, attempt, trigger, request_url, request_headers, request_body,
      response_status, response_headers, response_body, duration_ms, error)
    select given.delivery_id, given.webhook_id, given.attempt, given.trigger, given.request_url, given.request_headers,
      given.request_body, given.response_status, given.response_headers, given.response_body, given.duration_ms,
      given.error
    from given join done on done.id = given.delivery_id`.execute(db);
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
