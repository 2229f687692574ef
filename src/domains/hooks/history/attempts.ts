import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { notFound } from '#platform/errors.ts';
import { ifReadable } from '../policy.ts';
import { triggerNamed } from '../triggers.ts';

/** One logged attempt to deliver. Secrets are masked. */
export interface AttemptRow {
  readonly id: number;
  readonly delivery_id: string;
  readonly webhook_id: number;
  readonly attempt: number;
  readonly trigger: string;
  readonly request_url: string;
  readonly request_headers: unknown;
  /**
   * The body that was sent: the payload or a rendered template. Null if it has expired or the caller may not read it.
   * See `listedBody`.
   */
  readonly request_body: string | null;
  readonly response_status: number | null;
  readonly response_headers: unknown;
  /** Also null if the caller may not read the request body. */
  readonly response_body: string | null;
  readonly duration_ms: number;
  readonly error: string | null;
  readonly created_at: string;
}

/** Classes of status codes. */
export const ATTEMPT_CLASSES = ['successful', 'client_failure', 'server_failure'] as const;

/** A status code or a class of status codes. */
export type AttemptStatus = number | (typeof ATTEMPT_CLASSES)[number];

const WHOLE_BODY = sql<string | null>`coalesce(webhook_attempts.request_body, webhook_payloads.body)`;

const MAX_LISTED_BYTES = 64 * 1024;

/** The body in lists. Bodies can have 25 MB and a page holds a hundred, so large ones must be requested one by one. */
export const listedBody = (body: RawBuilder<string | null>): RawBuilder<string | null> =>
  sql`case when octet_length(${body}) > ${sql.lit(MAX_LISTED_BYTES)} then '{"oversize":true}' else ${body} end`;

/** The time of the payload is compared by order, as for deliveries. */
const attemptQuery = (ctx: Context, body = WHOLE_BODY) =>
  ctx.db
    .selectFrom('webhook_attempts')
    .innerJoin('webhook_payloads', (join) =>
      join
        .onRef('webhook_payloads.id', '=', 'webhook_attempts.payload_id')
        .onRef('webhook_payloads.created_at', '>=', 'webhook_attempts.delivery_created_at')
        .onRef('webhook_payloads.created_at', '<=', 'webhook_attempts.delivery_created_at'),
    )
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
  /** Either name of the trigger: `push_events` or `push_hooks`. */
  readonly trigger?: string | undefined;
  readonly created_after?: string | undefined;
  readonly created_before?: string | undefined;
  readonly delivery_id?: string | undefined;
}

type AttemptTables = 'webhook_attempts' | 'webhook_payloads';

const matchingAttempts = (ctx: Context, filter: AttemptFilter) => {
  const { status, trigger, created_after, created_before, delivery_id } = filter;
  let query = attemptQuery(ctx, listedBody(WHOLE_BODY));
  if (status !== undefined) query = query.where(hasStatus(status));
  if (trigger !== undefined) query = query.where('webhook_attempts.trigger', '=', triggerNamed(trigger) ?? '');
  const created = sql.ref('webhook_attempts.created_at');
  if (created_after !== undefined) query = query.where(atOrAfter(created, created_after));
  if (created_before !== undefined) query = query.where(atOrBefore(created, created_before));
  if (delivery_id !== undefined) query = query.where('webhook_attempts.delivery_id', '=', delivery_id);
  return query;
};

const newestFirst: SortKey<AttemptRow>[] = [{ by: sql.ref('webhook_attempts.id'), of: (row) => row.id }];

/** Returns the attempts of a hook, newest first. The caller must have checked access with `getHook`. */
export const listAttempts = (ctx: Context, webhookId: number, filter: AttemptFilter = {}): List<AttemptRow> =>
  listOf<AttemptTables, AttemptRow>(
    ctx.db,
    matchingAttempts(ctx, filter).where('webhook_attempts.webhook_id', '=', webhookId),
    newestFirst,
    'desc',
  );

/** Returns the attempts of many hooks, newest first per hook. */
export const listAttemptsBelow = (ctx: Context, filter: AttemptFilter = {}): BatchedList<AttemptRow> =>
  batchedListOf<AttemptTables, AttemptRow>(
    ctx.db,
    (webhookId) => matchingAttempts(ctx, filter).where('webhook_attempts.webhook_id', '=', webhookId),
    newestFirst,
    'desc',
  );

/** Returns an attempt by id. The caller must check access to its hook with `getHookById`. @throws `not_found` */
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

/** Returns attempts by id, with bodies as in lists. The caller must check access. */
export const attemptsByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, AttemptRow>> => {
  const rows = await attemptQuery(ctx, listedBody(WHOLE_BODY))
    .where(sql<boolean>`webhook_attempts.id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

const STATUSES = { successful: [200, 299], client_failure: [400, 499], server_failure: [500, 599] } as const;

const hasStatus = (status: AttemptStatus): RawBuilder<boolean> =>
  statusIn(sql.ref('webhook_attempts.response_status'), status);

/** SQL: whether the column holds such a status. */
export const statusIn = (column: RawBuilder<unknown>, status: AttemptStatus): RawBuilder<boolean> => {
  const [from, to] = typeof status === 'number' ? [status, status] : STATUSES[status];
  return sql<boolean>`${column} between ${from} and ${to}`;
};
