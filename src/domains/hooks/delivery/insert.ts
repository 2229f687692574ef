import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Moment } from '#domains/events/visibility.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import type { Claimed } from './claim.ts';
import { findCourier } from './courier.ts';

/** The Postgres channel that announces new deliveries. */
export const DELIVERIES_CHANNEL = 'webhook_deliveries';

export interface HookToCall {
  readonly id: number;
  /** It is disabled, for a while or permanently. */
  readonly blocked: boolean;
  /** Changes with every edit of the hook. */
  readonly version: string;
  readonly recent_failures: number;
}

/** An event with the hooks that it calls. */
export interface Wanted {
  /** The root namespace of the event. */
  readonly root: number | null;
  readonly event_id: number;
  readonly created_at: string;
  readonly kind: string;
  readonly trigger: string;
  readonly chain_id: string;
  readonly body: string | null;
  /** Decides later who may see the delivery's content. */
  readonly moment: Moment;
  readonly hooks: readonly { readonly hook: HookToCall; readonly reason: string | null }[];
}

/** The delivery of an event to a hook, as dispatch inserts it. */
interface NewDelivery {
  readonly id: string;
  readonly event_id: number;
  readonly webhook_id: number;
  readonly reason: string | null;
  /** The place in the batch. */
  readonly n: number;
  /** The engine of this process takes it after the commit. */
  readonly direct: boolean;
}

/**
 * Inserts the deliveries in the order of the log, so the deliveries of one hook become due in that order. Hands those for
 * which the engine of this process has room over to it after the commit. The commit does not wait for the disk. If the
 * database loses it, the cursor of dispatch is lost with it: the events are dispatched again, with the same ids, and
 * everything that is recorded later reaches the disk after it.
 */
export const insertDeliveries = async (tx: Tx, wanted: readonly Wanted[]): Promise<void> => {
  const { silent_mode_enabled } = await getSettings(tx);
  const courier = silent_mode_enabled ? null : findCourier(tx.services);
  const room = new Map<number, number>();
  let inTotal = courier?.roomInTotal() ?? 0;
  const isDirect = ({ id, blocked }: HookToCall): boolean => {
    if (!courier || blocked || inTotal <= 0) return false;
    const left = room.get(id) ?? courier.roomOf(id);
    room.set(id, left - 1);
    if (left > 0) inTotal--;
    return left > 0;
  };
  const deliveries = wanted.flatMap(({ event_id, created_at, hooks }, n) =>
    hooks.map(({ hook, reason }): NewDelivery & { readonly hook: HookToCall } => ({
      id: deliveryIdOf(event_id, created_at, hook.id),
      event_id,
      webhook_id: hook.id,
      reason,
      n,
      direct: reason === null && isDirect(hook),
      hook,
    })),
  );
  const payloads = wanted.map(({ event_id, kind, trigger, chain_id, moment, hooks }) => ({
    ...{ event_id, kind, trigger, chain_id, moment },
    webhook_ids: hooks.flatMap(({ hook, reason }) => (reason === null ? hook.id : [])),
  }));
  // JSON has no line breaks of its own. Postgres splits lines in a tenth of the time in which it reads a text in JSON.
  const bodies = wanted.map(({ body }) => body ?? '').join('\n');
  const announced = deliveries.some(({ reason, direct }) => reason === null && !direct);
  const { rows } = await sql<{ event_id: number; payload_id: number; created_at: string }>`
    with payloads as (
      insert into webhook_payloads (event_id, kind, trigger, chain_id, body, moment, webhook_ids)
      select event_id, kind, trigger, chain_id, nullif(body, ''), moment, webhook_ids
      from rows from (
        json_to_recordset(${toJsonb(payloads)}::json) as (
          event_id bigint, kind text, trigger text, chain_id text, moment jsonb, webhook_ids bigint[]),
        string_to_table(${bodies}, chr(10))
      ) as told (event_id, kind, trigger, chain_id, moment, webhook_ids, body)
      returning id, event_id
    ), given as materialized (
      select given.*, payloads.id as payload_id
      from json_to_recordset(${JSON.stringify(deliveries.map(({ hook: _, ...delivery }) => delivery))}::json)
        as given (id uuid, event_id bigint, webhook_id bigint, reason text, n int, direct boolean)
      join payloads using (event_id)
    ), logged as (
      insert into webhook_deliveries (id, webhook_id, payload_id, state, last_error, finished_at)
      select id, webhook_id, payload_id, case when reason is null then 'open' else 'dropped' end, reason,
        case when reason is not null then now() end
      from given
    ), queued as (
      insert into webhook_queue (delivery_id, webhook_id, payload_id, created_at, state, claimed_by, next_attempt_at)
      select id, webhook_id, payload_id, now(), case when direct then 'sending' else 'waiting' end,
        case when direct then ${tx.services.processId}::uuid end, now() + n * interval '1 microsecond'
      from given where reason is null
    )
    select event_id, id as payload_id, now() as created_at,
      (select pg_notify(${DELIVERIES_CHANNEL}, '') where ${announced}::boolean),
      (select set_config('synchronous_commit', 'off', true))
    from payloads`.execute(tx.db);
  if (!courier || !deliveries.some(({ direct }) => direct)) return;
  const inserted = new Map(rows.map((row) => [row.event_id, row]));
  const withBody = new Set<number>();
  const contents = new Map(wanted.map((each) => [each.event_id, each]));
  const claimed = deliveries.flatMap(({ id, event_id, webhook_id, direct, hook }): Claimed[] => {
    const row = inserted.get(event_id);
    const content = contents.get(event_id);
    if (!direct || !row || !content) return [];
    const { payload_id, created_at } = row;
    const { trigger, chain_id } = content;
    const { version, recent_failures } = hook;
    // As in a claim, only the first delivery of a payload has its body.
    const body = withBody.has(event_id) ? null : content.body;
    withBody.add(event_id);
    return [{ id, created_at, webhook_id, payload_id, attempts: 0, trigger, chain_id, body, version, recent_failures }];
  });
  tx.afterCommit(() => courier.take(claimed));
};

/**
 * Returns the id of the delivery of an event to a hook: a UUID of version 8 (RFC 9562) that begins with the time of the
 * event, so that ids grow, and is always the same, so that a repeated dispatch keeps the Idempotency-Key.
 */
const deliveryIdOf = (eventId: number, createdAt: string, webhookId: number): string => {
  const time = Date.parse(isoTime(createdAt)).toString(16).padStart(12, '0');
  const digest = hash('sha256', `${eventId} ${webhookId}`);
  const variant = ((Number.parseInt(digest.charAt(3), 16) & 3) | 8).toString(16);
  return [
    time.slice(0, 8),
    time.slice(8),
    `8${digest.slice(0, 3)}`,
    `${variant}${digest.slice(4, 7)}`,
    digest.slice(7, 19),
  ].join('-');
};
