import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import { ifReadable } from './policy.ts';
import { triggerNamed } from './triggers.ts';

/** One attempt to deliver, as it was kept: secrets are masked in it. */
export interface AttemptRow {
  readonly id: number;
  readonly delivery_id: string;
  readonly webhook_id: number;
  readonly attempt: number;
  readonly trigger: string;
  readonly request_url: string;
  readonly request_headers: unknown;
  /** What was sent: the payload, or what a template made of it. Null if the payload is no longer kept, or the caller may not read it. See `listedBody`. */
  readonly request_body: string | null;
  readonly response_status: number | null;
  readonly response_headers: unknown;
  /** Also null if the caller may not read what was sent. */
  readonly response_body: string | null;
  readonly duration_ms: number;
  readonly error: string | null;
  readonly created_at: string;
}

/** A status code, or one of the classes that tools ask for. */
export type AttemptStatus = number | 'successful' | 'client_failure' | 'server_failure';

const WHOLE_BODY = sql<string | null>`coalesce(webhook_attempts.request_body, webhook_payloads.body)`;

const MAX_LISTED_BYTES = 64 * 1024;

/** A body as lists have it: they hold a hundred, and of up to 25 MB each. Who wants a larger one asks for it alone. */
export const listedBody = (body: RawBuilder<string | null>): RawBuilder<string | null> =>
  sql`case when octet_length(${body}) > ${sql.lit(MAX_LISTED_BYTES)} then '{"oversize":true}' else ${body} end`;

const attemptQuery = (ctx: Context, body = WHOLE_BODY) =>
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
      ifReadable(ctx, body).as('request_body'),
      'webhook_attempts.response_status',
      'webhook_attempts.response_headers',
      ifReadable(ctx, sql.ref<string | null>('webhook_attempts.response_body')).as('response_body'),
      'webhook_attempts.duration_ms',
      'webhook_attempts.error',
      'webhook_attempts.created_at',
    ]);

export interface AttemptFilter {
  readonly status?: AttemptStatus | undefined;
  /** By either of its names: `push_events`, `push_hooks`. */
  readonly trigger?: string | undefined;
  readonly created_after?: string | undefined;
  readonly created_before?: string | undefined;
  readonly delivery_id?: string | undefined;
}

type AttemptTables = 'webhook_attempts' | 'webhook_deliveries' | 'webhook_payloads';

const matchingAttempts = (ctx: Context, filter: AttemptFilter) => {
  const { status, trigger, created_after, created_before, delivery_id } = filter;
  let query = attemptQuery(ctx, listedBody(WHOLE_BODY));
  if (status !== undefined) query = query.where(hasStatus(status));
  if (trigger !== undefined) query = query.where('webhook_attempts.trigger', '=', triggerNamed(trigger) ?? '');
  if (created_after !== undefined) query = query.where('webhook_attempts.created_at', '>', created_after);
  if (created_before !== undefined) query = query.where('webhook_attempts.created_at', '<', created_before);
  if (delivery_id !== undefined) query = query.where('webhook_attempts.delivery_id', '=', delivery_id);
  return query;
};

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

/** @throws `not_found` (Hook event) */
export const getAttempt = async (ctx: Context, webhookId: number, id: number): Promise<AttemptRow> => {
  const row = await attemptQuery(ctx)
    .where('webhook_attempts.webhook_id', '=', webhookId)
    .where('webhook_attempts.id', '=', id)
    .executeTakeFirst();
  if (!row) throw notFound('Hook event');
  return row;
};

/** Attempts by their ids, by id, as lists have them. Rights are the caller's to check. */
export const attemptsByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, AttemptRow>> => {
  const rows = await attemptQuery(ctx, listedBody(WHOLE_BODY))
    .where(sql<boolean>`webhook_attempts.id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

const STATUSES = { successful: [200, 299], client_failure: [400, 499], server_failure: [500, 599] } as const;

const hasStatus = (status: AttemptStatus): RawBuilder<boolean> =>
  statusIn(sql.ref('webhook_attempts.response_status'), status);

/** Whether the column holds such a status. */
export const statusIn = (column: RawBuilder<unknown>, status: AttemptStatus): RawBuilder<boolean> => {
  const [from, to] = typeof status === 'number' ? [status, status] : STATUSES[status];
  return sql<boolean>`${column} between ${from} and ${to}`;
};
