import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { webhookDeliveryUpdated } from '../events.ts';
import { MIN_ATTEMPTS, RETRY_HOURS } from '../model.ts';
import { LEAST_ROLES } from '../policy.ts';
import type { Outcome } from './send.ts';

export interface Attempt {
  readonly deliveryId: string;
  /** When the delivery was created, as Postgres writes it. */
  readonly createdAt: string;
  readonly webhookId: number;
  readonly attempt: number;
  readonly trigger: string;
  readonly outcome: Outcome;
  /** The delay before the next attempt if this one failed. */
  readonly delayMs: number;
}

const isOver = sql<boolean>`(given.attempt >= ${sql.lit(MIN_ATTEMPTS)}
  and q.retries_from + interval '${sql.raw(String(RETRY_HOURS))} hours' < now() + given.delay_ms * interval '1 ms')`;

/**
 * Records the outcome of many attempts in one statement: one log row each, and the new state of each delivery
 * (delivered, waiting for a retry, or expired after three days). Skips deliveries that this process no longer owns
 * because they were released or deleted. Returns the log rows by hook.
 */
export const recordAttempts = async (
  db: Database,
  processId: string,
  attempts: readonly Attempt[],
): Promise<readonly RecordedHook[]> => {
  const ids = attempts.map(({ deliveryId }) => deliveryId);
  const failed = attempts.flatMap(({ deliveryId, outcome }) => (outcome.delivered ? [] : [deliveryId]));
  // Times of one format sort as texts. They let Postgres open only the partitions of these deliveries.
  const times = attempts.map(({ createdAt }) => createdAt).sort();
  const { rows } = await sql<RecordedHook>`
    with given as materialized (
      select * from json_to_recordset(${toJsonb(attempts.map(attemptRow))}::json) as (
        delivery_id uuid, delivery_created_at timestamptz, webhook_id bigint, attempt int, trigger text,
        request_url text, request_headers json, request_body text, response_status int, response_headers json,
        response_body text, duration_ms int, error text, delivered boolean, delay_ms float8)
    ), ended as (
      delete from webhook_queue q using given
      where q.delivery_id = any (${ids}::uuid[]) and q.delivery_id = given.delivery_id
        and q.state = 'sending' and q.claimed_by = ${processId} and (given.delivered or ${isOver})
      returning q.delivery_id, case when given.delivered then 'delivered' else 'expired' end as state
    ), retried as (
      update webhook_queue q set state = 'waiting', claimed_by = null, attempts = given.attempt,
        next_attempt_at = now() + given.delay_ms * interval '1 ms'
      from given
      where q.delivery_id = any (${failed}::uuid[]) and q.delivery_id = given.delivery_id
        and q.state = 'sending' and q.claimed_by = ${processId} and not ${isOver}
      returning q.delivery_id, 'open' as state
    ), done as (
      update webhook_deliveries d set
        state = owned.state,
        attempts = given.attempt,
        last_response_status = given.response_status,
        last_error = given.error,
        finished_at = case when owned.state <> 'open' then now() end
      from given join (select * from ended union all select * from retried) owned using (delivery_id)
      where d.id = any (${ids}::uuid[]) and d.id = given.delivery_id
        and d.created_at between ${times[0]}::timestamptz and ${times.at(-1)}::timestamptz
        and d.created_at = given.delivery_created_at
      returning d.payload_id, given.*
    ), logged as (
      insert into webhook_attempts (delivery_id, delivery_created_at, payload_id, webhook_id, attempt, trigger,
        request_url, request_headers, request_body, response_status, response_headers, response_body, duration_ms,
        error)
      select delivery_id, delivery_created_at, payload_id, webhook_id, attempt, trigger, request_url, request_headers,
        request_body, response_status, response_headers, response_body, duration_ms, error
      from done
      returning id, webhook_id
    )
    ${recordedHooks}`.execute(db);
  return rows;
};

/** A hook with its location and the ids of its new log rows. */
export interface RecordedHook {
  readonly id: number;
  readonly project_id: number | null;
  readonly namespace_ids: readonly number[];
  readonly attempt_ids: readonly number[];
}

/** SQL: the namespaces that contain the hook `h`, outermost first. None for system hooks. */
export const namespaceIdsOf = sql<number[]>`coalesce((
  select n.traversal_ids from namespaces n
  where n.id = coalesce(h.namespace_id, (select p.namespace_id from projects p where p.id = h.project_id))), '{}')`;

/** SQL: the hooks of the new log rows `logged (id, webhook_id)`. */
export const recordedHooks = sql<RecordedHook>`
  select h.*, logged.attempt_ids
  from (select webhook_id, array_agg(id order by id) as attempt_ids from logged group by webhook_id) logged
  cross join lateral (
    select h.id, h.project_id, ${namespaceIdsOf} as namespace_ids from webhooks h
    where h.id = logged.webhook_id offset 0
  ) h`;

/**
 * Emits events about new log rows. They carry only ids, because each subscriber reads the rows with their own rights.
 */
export const emitAttempts = (tx: Tx, hooks: readonly RecordedHook[]): void => {
  for (const { id, project_id, namespace_ids, attempt_ids } of hooks)
    tx.emit(webhookDeliveryUpdated, {
      subject: { type: 'Webhook', id },
      project_id,
      namespace_ids,
      min_access_level: LEAST_ROLES[project_id === null ? 'group' : 'project'],
      payload: { id, attempt_ids: [...attempt_ids] },
    });
};

const attemptRow = ({ deliveryId, createdAt, delayMs, ...attempt }: Attempt) => ({
  delivery_id: deliveryId,
  delivery_created_at: createdAt,
  ...loggedColumns(attempt),
  delivered: attempt.outcome.delivered,
  delay_ms: delayMs,
});

/** Returns the columns of the log row that describe the attempt itself. */
export const loggedColumns = ({
  webhookId,
  attempt,
  trigger,
  outcome,
}: Pick<Attempt, 'webhookId' | 'attempt' | 'trigger' | 'outcome'>) => ({
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
});
