import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Moment } from '#domains/events/visibility.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { type Courier, findCourier, type NewDelivery } from './courier.ts';
import type { FirstAttempts } from './first-attempts.ts';
import { loggedColumns, type RecordedHook, recordedHooks } from './record.ts';

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
  /** JSON. */
  readonly body: Buffer | null;
  /** Decides later who may see the delivery's content. */
  readonly moment: Moment;
  readonly hooks: readonly { readonly hook: HookToCall; readonly reason: string | null }[];
}

/** The delivery of an event to a hook, as dispatch inserts it. */
interface Planned {
  readonly id: string;
  readonly hook: HookToCall;
  readonly reason: string | null;
  /** The place in the dispatch. */
  readonly n: number;
  /** The engine of this process sends it at once. */
  readonly direct: boolean;
}

interface PlannedEvent extends Wanted {
  readonly deliveries: readonly Planned[];
}

/** How many deliveries are inserted together. While Postgres inserts them, the next ones are sent. */
const GROUP = 50;

/**
 * Inserts the deliveries in the order of the log, so the deliveries of one hook become due in that order. Those for which
 * the engine of this process has room are sent at the same time. If their receivers answer soon enough, their attempts
 * are inserted with them, and they never enter the queue. If this process or the database dies before the commit, the
 * cursor of dispatch stays where it was: the events are dispatched again, with the same ids.
 */
export const insertDeliveries = async (tx: Tx, wanted: readonly Wanted[]): Promise<void> => {
  const { silent_mode_enabled } = await getSettings(tx);
  const courier = silent_mode_enabled ? null : findCourier(tx.services);
  const events = plan(wanted, courier);
  const direct = events.flatMap(newDeliveriesOf);
  const sending = courier && direct.length > 0 ? await courier.send(direct) : null;
  tx.afterRollback(() => sending?.rollBack());
  let createdAt = '';
  const recorded = new Map<number, RecordedHook>();
  for (const group of groupsOf(events)) {
    await sending?.wait(group.flatMap(({ deliveries }) => deliveries.map(({ id }) => id)));
    const { hooks, created_at } = await insertGroup(tx, group, sending);
    createdAt = created_at;
    for (const hook of hooks) {
      const attempt_ids = [...(recorded.get(hook.id)?.attempt_ids ?? []), ...hook.attempt_ids];
      recorded.set(hook.id, { ...hook, attempt_ids });
    }
  }
  tx.afterCommit(() => sending?.commit(createdAt));
  if (recorded.size > 0) courier?.announce(tx, [...recorded.values()]);
};

const plan = (wanted: readonly Wanted[], courier: Courier | null): PlannedEvent[] => {
  const room = new Map<number, number>();
  let inTotal = courier?.roomInTotal() ?? 0;
  const isDirect = ({ id, blocked }: HookToCall): boolean => {
    if (!courier || blocked || inTotal <= 0) return false;
    const left = room.get(id) ?? courier.roomOf(id);
    room.set(id, left - 1);
    if (left > 0) inTotal--;
    return left > 0;
  };
  return wanted.map((event, n) => ({
    ...event,
    deliveries: event.hooks.map(({ hook, reason }) => ({
      id: deliveryIdOf(event.event_id, event.created_at, hook.id),
      hook,
      reason,
      n,
      direct: reason === null && isDirect(hook),
    })),
  }));
};

const newDeliveriesOf = ({ body, trigger, chain_id, deliveries }: PlannedEvent): NewDelivery[] => {
  if (body === null) return [];
  return deliveries
    .filter(({ direct }) => direct)
    .map(({ id, hook }) => ({
      ...{ id, webhook_id: hook.id, version: hook.version, recent_failures: hook.recent_failures },
      ...{ trigger, chain_id, body },
    }));
};

const NOTHING = Buffer.alloc(0);
const LINE_BREAK = Buffer.from('\n');

/** Splits the events into groups of some deliveries. */
const groupsOf = (events: readonly PlannedEvent[]): PlannedEvent[][] => {
  const groups: PlannedEvent[][] = [];
  let count = GROUP;
  for (const event of events) {
    if (count >= GROUP) {
      groups.push([]);
      count = 0;
    }
    groups.at(-1)?.push(event);
    count += event.deliveries.length;
  }
  return groups;
};

/** Inserts events with their deliveries, and with those first attempts that need nothing more. */
const insertGroup = async (
  tx: Tx,
  events: readonly PlannedEvent[],
  sending: FirstAttempts | null,
): Promise<{ hooks: RecordedHook[]; created_at: string }> => {
  const payloads = events.map(({ event_id, kind, trigger, chain_id, moment, deliveries }) => ({
    ...{ event_id, kind, trigger, chain_id, moment },
    webhook_ids: deliveries.flatMap(({ hook, reason }) => (reason === null ? hook.id : [])),
  }));
  // JSON has no line breaks of its own. Postgres splits lines in a tenth of the time in which it reads a text in JSON.
  const bodies = Buffer.concat(events.flatMap(({ body }, n) => [n === 0 ? NOTHING : LINE_BREAK, body ?? NOTHING]));
  let announced = false;
  const deliveries = events.flatMap(({ event_id, deliveries }) =>
    deliveries.map(({ id, hook, reason, n, direct }) => {
      const ended = sending?.take(id);
      const state = reason !== null ? 'dropped' : ended ? 'delivered' : direct ? 'sending' : 'waiting';
      announced ||= state === 'waiting';
      return { id, event_id, webhook_id: hook.id, reason, n, state, ...(ended ? loggedColumns(ended) : {}) };
    }),
  );
  const { rows } = await sql<Partial<RecordedHook> & { created_at: string }>`
    with payloads as (
      insert into webhook_payloads (event_id, kind, trigger, chain_id, body, moment, webhook_ids)
      select event_id, kind, trigger, chain_id, nullif(body, ''), moment, webhook_ids
      from rows from (
        json_to_recordset(${toJsonb(payloads)}::json) as (
          event_id bigint, kind text, trigger text, chain_id text, moment jsonb, webhook_ids bigint[]),
        string_to_table(${bodies}::text, chr(10))
      ) as told (event_id, kind, trigger, chain_id, moment, webhook_ids, body)
      returning id, event_id
    ), given as materialized (
      select given.*, payloads.id as payload_id
      from json_to_recordset(${toJsonb(deliveries)}::json) as given (
        id uuid, event_id bigint, webhook_id bigint, reason text, n int, state text, attempt int, trigger text,
        request_url text, request_headers json, request_body text, response_status int, response_headers json,
        response_body text, duration_ms int, error text)
      join payloads using (event_id)
    ), inserted as (
      insert into webhook_deliveries (id, webhook_id, payload_id, state, attempts, last_response_status, last_error,
        finished_at)
      select id, webhook_id, payload_id, case when state in ('sending', 'waiting') then 'open' else state end,
        coalesce(attempt, 0), response_status, reason, case when state in ('dropped', 'delivered') then now() end
      from given
    ), queued as (
      insert into webhook_queue (delivery_id, webhook_id, payload_id, created_at, state, claimed_by, next_attempt_at)
      select id, webhook_id, payload_id, now(), state, case when state = 'sending' then ${tx.services.processId}::uuid end,
        now() + n * interval '1 microsecond'
      from given where state in ('sending', 'waiting')
    ), logged as (
      insert into webhook_attempts (delivery_id, delivery_created_at, payload_id, webhook_id, attempt, trigger,
        request_url, request_headers, request_body, response_status, response_headers, response_body, duration_ms,
        error)
      select id, now(), payload_id, webhook_id, attempt, trigger, request_url, request_headers, request_body,
        response_status, response_headers, response_body, duration_ms, error
      from given where state = 'delivered'
      returning id, webhook_id
    )
    select now() as created_at, recorded.*,
      (select pg_notify(${DELIVERIES_CHANNEL}, '') where ${announced}::boolean)
    from (select) one left join (${recordedHooks}) recorded on true`.execute(tx.db);
  return {
    hooks: rows.flatMap(({ id, project_id = null, namespace_ids = [], attempt_ids = [] }) =>
      typeof id === 'number' ? [{ id, project_id, namespace_ids, attempt_ids }] : [],
    ),
    created_at: rows[0]?.created_at ?? '',
  };
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
