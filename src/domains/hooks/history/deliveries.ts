import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { notFound } from '#platform/errors.ts';
import { type DeliveryState, isOpen } from '../model.ts';
import { ifReadable } from '../policy.ts';
import { triggerNamed } from '../triggers.ts';
import { type AttemptStatus, listedBody, statusIn } from './attempts.ts';

/** The ids of deliveries: UUIDs. */
export const DELIVERY_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The delivery of one event to one hook, until it is delivered or given up. */
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
  /** Null if it is finished. */
  readonly next_attempt_at: string | null;
  readonly last_response_status: number | null;
  readonly last_error: string | null;
  /** Also null if the caller may not read the payload. */
  readonly body: string | null;
  readonly created_at: string;
  readonly finished_at: string | null;
}

const WHOLE_BODY = sql.ref<string | null>('webhook_payloads.body');

/**
 * A payload has the time of its deliveries and attempts, which finds its partition. The time is compared by order: with
 * an equation, Postgres expects next to no match, and joins all of them before it sorts.
 */
const deliveryQuery = (ctx: Context, body: RawBuilder<string | null> = WHOLE_BODY) =>
  ctx.db
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_payloads', (join) =>
      join
        .onRef('webhook_payloads.id', '=', 'webhook_deliveries.payload_id')
        .onRef('webhook_payloads.created_at', '>=', 'webhook_deliveries.created_at')
        .onRef('webhook_payloads.created_at', '<=', 'webhook_deliveries.created_at'),
    )
    .leftJoin('webhook_queue', 'webhook_queue.delivery_id', 'webhook_deliveries.id')
    .select([
      'webhook_deliveries.id',
      'webhook_deliveries.webhook_id',
      'webhook_deliveries.payload_id',
      'webhook_payloads.kind',
      'webhook_payloads.trigger',
      'webhook_payloads.chain_id',
      sql<DeliveryState>`coalesce(webhook_queue.state, webhook_deliveries.state)`.as('state'),
      'webhook_deliveries.attempts',
      'webhook_queue.next_attempt_at',
      'webhook_deliveries.last_response_status',
      'webhook_deliveries.last_error',
      ifReadable(ctx, body).as('body'),
      'webhook_deliveries.created_at',
      'webhook_deliveries.finished_at',
    ]);

export interface DeliveryFilter {
  readonly states?: readonly DeliveryState[] | undefined;
  /** Either name of the trigger: `push_events` or `push_hooks`. */
  readonly trigger?: string | undefined;
  readonly created_after?: string | undefined;
  readonly created_before?: string | undefined;
  /** The response status of the last attempt. */
  readonly status?: AttemptStatus | undefined;
}

type DeliveryTables = 'webhook_deliveries' | 'webhook_payloads' | 'webhook_queue';

/** The states are separate conditions, so that a list of open deliveries can start with the queue. */
const inStates = (states: readonly DeliveryState[]): RawBuilder<boolean> => {
  const [open, finished] = [states.filter(isOpen), states.filter((state) => !isOpen(state))];
  const isFinished = sql`webhook_deliveries.state = any (${finished}::text[])`;
  const inQueue = sql`webhook_queue.state = any (${open}::text[])`;
  if (open.length === 0) return sql<boolean>`${isFinished}`;
  return finished.length === 0 ? sql<boolean>`${inQueue}` : sql<boolean>`(${isFinished} or ${inQueue})`;
};

const matching = (ctx: Context, webhookId: number | RawBuilder<number>, filter: DeliveryFilter) => {
  const { states, trigger, created_after, created_before, status } = filter;
  let query = deliveryQuery(ctx, listedBody(WHOLE_BODY)).where('webhook_deliveries.webhook_id', '=', webhookId);
  if (states !== undefined) query = query.where(inStates(states));
  if (trigger !== undefined) query = query.where('webhook_payloads.trigger', '=', triggerNamed(trigger) ?? '');
  const created = sql.ref('webhook_deliveries.created_at');
  if (created_after !== undefined) query = query.where(atOrAfter(created, created_after));
  if (created_before !== undefined) query = query.where(atOrBefore(created, created_before));
  if (status !== undefined) query = query.where(statusIn(sql.ref('webhook_deliveries.last_response_status'), status));
  return query;
};

const newestFirst: SortKey<DeliveryRow>[] = [
  { by: sql.ref('webhook_deliveries.created_at'), of: (row) => row.created_at },
  { by: sql.ref('webhook_deliveries.id'), of: (row) => row.id },
];

/**
 * Returns all deliveries of a hook, also unsent ones, newest first. The caller must have checked access with `getHook`.
 */
export const listDeliveries = (ctx: Context, webhookId: number, filter: DeliveryFilter = {}): List<DeliveryRow> =>
  listOf<DeliveryTables, DeliveryRow>(ctx.db, matching(ctx, webhookId, filter), newestFirst, 'desc');

/** Returns the deliveries of many hooks, newest first per hook. */
export const listDeliveriesBelow = (ctx: Context, filter: DeliveryFilter = {}): BatchedList<DeliveryRow> =>
  batchedListOf<DeliveryTables, DeliveryRow>(
    ctx.db,
    (webhookId) => matching(ctx, webhookId, filter),
    newestFirst,
    'desc',
  );

/** Returns a delivery by id. The caller must check access to its hook. @throws `not_found` (Delivery) */
export const getDelivery = async (ctx: Context, id: string): Promise<DeliveryRow> => {
  if (!DELIVERY_ID.test(id)) throw notFound('Delivery');
  const row = await deliveryQuery(ctx).where('webhook_deliveries.id', '=', id).executeTakeFirst();
  if (!row) throw notFound('Delivery');
  return row;
};

/** @throws `not_found` (Delivery) */
export const getHookDelivery = async (ctx: Context, webhookId: number, id: string): Promise<DeliveryRow> => {
  const row = await getDelivery(ctx, id);
  if (row.webhook_id !== webhookId) throw notFound('Delivery');
  return row;
};
