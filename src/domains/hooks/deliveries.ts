import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { DeliveryState } from './model.ts';

/** One attempt to deliver, as it was kept: secrets are masked in it. */
export interface AttemptRow {
  readonly id: number;
  readonly delivery_id: string;
  readonly webhook_id: number;
  readonly attempt: number;
  readonly trigger: string;
  readonly request_url: string;
  readonly request_headers: unknown;
  /** What was sent: the payload, or what a template made of it. Null where the payload is no longer kept. */
  readonly request_body: string | null;
  readonly response_status: number | null;
  readonly response_headers: unknown;
  readonly response_body: string | null;
  readonly duration_ms: number;
  readonly error: string | null;
  readonly created_at: string;
}

export interface DeliveryRow {
  /** The Idempotency-Key of its attempts. */
  readonly id: string;
  readonly webhook_id: number;
  readonly payload_id: number;
  readonly kind: string;
  readonly trigger: string;
  readonly chain_id: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly next_attempt_at: string;
  readonly last_response_status: number | null;
  readonly last_error: string | null;
  readonly body: string | null;
  readonly created_at: string;
  readonly finished_at: string | null;
}

/** A status code, or one of the classes that tools ask for. */
export type AttemptStatus = number | 'successful' | 'client_failure' | 'server_failure';

const attemptQuery = (ctx: Context) =>
  ctx.db
    .selectFrom('webhook_attempts')
    .innerJoin('webhook_deliveries', 'webhook_deliveries.id', 'webhook_attempts.delivery_id')
    .innerJoin('webhook_payloads', 'webhook_payloads.id', 'webhook_deliveries.payload_id')
    .select([
      'webhook_attempts.id',
      'webhook_attempts.delivery_id',
      'webhook_attempts.webhook_id',
      'webhook_attempts.attempt',
      'webhook_attempts.trigger',
      'webhook_attempts.request_url',
      'webhook_attempts.request_headers',
      sql<string | null>`coalesce(webhook_attempts.request_body, webhook_payloads.body)`.as('request_body'),
      'webhook_attempts.response_status',
      'webhook_attempts.response_headers',
      'webhook_attempts.response_body',
      'webhook_attempts.duration_ms',
      'webhook_attempts.error',
      'webhook_attempts.created_at',
    ]);

export interface AttemptFilter {
  readonly status?: AttemptStatus | undefined;
}

type AttemptTables = 'webhook_attempts' | 'webhook_deliveries' | 'webhook_payloads';

const matchingAttempts = (ctx: Context, { status }: AttemptFilter) =>
  status === undefined ? attemptQuery(ctx) : attemptQuery(ctx).where(hasStatus(status));

const newestFirst: SortKey<AttemptRow>[] = [{ by: sql.ref('webhook_attempts.id'), of: (row) => row.id }];

/** The attempts of a hook, newest first. For whom `getHook` let through. */
export const listAttempts = (ctx: Context, webhookId: number, filter: AttemptFilter = {}): List<AttemptRow> =>
  listOf<AttemptTables, AttemptRow>(
    ctx.db,
    matchingAttempts(ctx, filter).where('webhook_attempts.webhook_id', '=', webhookId),
    newestFirst,
    'desc',
  );

/** The same below each of many hooks. */
export const listAttemptsBelow = (ctx: Context, filter: AttemptFilter = {}): BatchedList<AttemptRow> =>
  batchedListOf<AttemptTables, AttemptRow>(
    ctx.db,
    (webhookId) => matchingAttempts(ctx, filter).where('webhook_attempts.webhook_id', '=', webhookId),
    newestFirst,
    'desc',
  );

/** By its id alone: whether the caller may know of it is said by its hook (`getHookById`). @throws `not_found` */
export const getAttemptById = async (ctx: Context, id: number): Promise<AttemptRow> => {
  const row = await attemptQuery(ctx).where('webhook_attempts.id', '=', id).executeTakeFirst();
  if (!row) throw notFound('Hook event');
  return row;
};

/** The last attempt of a delivery. @throws `not_found` */
export const getNewestAttempt = async (ctx: Context, deliveryId: string): Promise<AttemptRow> => {
  const row = await attemptQuery(ctx)
    .where('webhook_attempts.delivery_id', '=', deliveryId)
    .orderBy('webhook_attempts.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!row) throw notFound('Hook event');
  return row;
};

/** @throws `not_found` (Hook event) */
export const getAttempt = async (ctx: Context, webhookId: number, id: number): Promise<AttemptRow> => {
  const row = await attemptQuery(ctx)
    .where('webhook_attempts.webhook_id', '=', webhookId)
    .where('webhook_attempts.id', '=', id)
    .executeTakeFirst();
  if (!row) throw notFound('Hook event');
  return row;
};

const STATUSES = { successful: [200, 299], client_failure: [400, 499], server_failure: [500, 599] } as const;

const hasStatus = (status: AttemptStatus): RawBuilder<boolean> => {
  const [from, to] = typeof status === 'number' ? [status, status] : STATUSES[status];
  return sql<boolean>`webhook_attempts.response_status between ${from} and ${to}`;
};

const deliveryQuery = (ctx: Context) =>
  ctx.db
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_payloads', 'webhook_payloads.id', 'webhook_deliveries.payload_id')
    .select([
      'webhook_deliveries.id',
      'webhook_deliveries.webhook_id',
      'webhook_deliveries.payload_id',
      'webhook_payloads.kind',
      'webhook_payloads.trigger',
      'webhook_payloads.chain_id',
      sql<DeliveryState>`webhook_deliveries.state`.as('state'),
      'webhook_deliveries.attempts',
      'webhook_deliveries.next_attempt_at',
      'webhook_deliveries.last_response_status',
      'webhook_deliveries.last_error',
      'webhook_payloads.body',
      'webhook_deliveries.created_at',
      'webhook_deliveries.finished_at',
    ]);

/** All deliveries of each of many hooks, also those not sent yet or never, newest first. */
export const listDeliveriesBelow = (
  ctx: Context,
  filter: { readonly states?: readonly DeliveryState[] | undefined } = {},
): BatchedList<DeliveryRow> =>
  batchedListOf<'webhook_deliveries' | 'webhook_payloads', DeliveryRow>(
    ctx.db,
    (webhookId) => {
      const query = deliveryQuery(ctx).where('webhook_deliveries.webhook_id', '=', webhookId);
      return filter.states ? query.where('webhook_deliveries.state', 'in', [...filter.states]) : query;
    },
    [
      { by: sql.ref('webhook_deliveries.created_at'), of: (row) => row.created_at },
      { by: sql.ref('webhook_deliveries.id'), of: (row) => row.id },
    ],
    'desc',
  );

/** @throws `not_found` (Delivery) */
export const getDelivery = async (ctx: Context, id: string): Promise<DeliveryRow> => {
  const row = await deliveryQuery(ctx).where('webhook_deliveries.id', '=', id).executeTakeFirst();
  if (!row) throw notFound('Delivery');
  return row;
};
