import { sql } from 'kysely';
import type { Database } from '#platform/db/pool.ts';

/** A delivery that this process has claimed. */
export interface Claimed {
  readonly id: string;
  /** Names the partition of the delivery, its payload and its attempts. */
  readonly created_at: string;
  readonly webhook_id: number;
  readonly payload_id: number;
  /** The number of attempts so far. */
  readonly attempts: number;
  readonly trigger: string;
  readonly chain_id: string;
  /** Only set on the first of the deliveries that share the payload. */
  readonly body: string | null;
  /** Changes with every edit of the hook. */
  readonly version: string;
  readonly recent_failures: number;
}

export interface Room {
  readonly webhook_id: number;
  readonly free: number;
}

/**
 * Claims due deliveries, for each hook at most as many as it has room for, so that a long queue cannot starve other
 * hooks. Finds the hooks by jumping through the index from one to the next, so the cost grows with hooks, not
 * deliveries. On the way it sets the deliveries of disabled hooks to `held`. It locks those hooks, so a transaction
 * that enables one waits and then sees the held deliveries.
 *
 * The table swings between empty and full while the query plan stays. So each lookup allows only one index
 * access (`= any`, or a subquery with `offset 0`, which the planner does not merge into a join).
 */
export const claimDue = async (
  db: Database,
  processId: string,
  room: readonly Room[],
  freeByDefault: number,
  limit: number,
): Promise<Claimed[]> => {
  const { rows } = await sql<Claimed>`
    with recursive busy (id) as (
      (select webhook_id from webhook_queue where state = 'waiting' order by webhook_id limit 1)
      union all
      select (
        select d.webhook_id from webhook_queue d
        where d.state = 'waiting' and d.webhook_id > busy.id order by d.webhook_id limit 1
      ) from busy where busy.id is not null
    ), hooks as materialized (
      select h.id, h.updated_at, h.recent_failures, h.blocked, coalesce(room.free, ${freeByDefault}::int) as free
      from busy
      cross join lateral (
        select id, updated_at, recent_failures, disabled_permanently or disabled_until is not null as blocked
        from webhooks where webhooks.id = busy.id offset 0
      ) h
      left join unnest(${room.map((each) => each.webhook_id)}::bigint[], ${room.map((each) => each.free)}::int[])
        as room (id, free) on room.id = h.id
    ), blocked as materialized (
      select id from webhooks
      where id = any (array(select id from hooks where blocked)) and (disabled_permanently or disabled_until is not null)
      for share
    ), held as (
      update webhook_queue set state = 'held'
      where webhook_id = any (array(select id from blocked)) and state = 'waiting'
    ), picked as materialized (
      select due.delivery_id
      from (select id, free from hooks where not blocked and free > 0 order by random()) hooks
      cross join lateral (
        select d.delivery_id from webhook_queue d
        where d.webhook_id = hooks.id and d.state = 'waiting' and d.next_attempt_at <= now()
        order by d.next_attempt_at limit hooks.free
        for update skip locked
      ) due
      limit ${limit}::int
    ), taken as (
      update webhook_queue set state = 'sending', claimed_by = ${processId}
      where delivery_id = any (array(select delivery_id from picked))
      returning delivery_id, webhook_id, payload_id, created_at, attempts, next_attempt_at
    )
    select taken.delivery_id as id, taken.created_at, taken.webhook_id, taken.payload_id, taken.attempts, p.trigger,
      p.chain_id, case when row_number() over (partition by taken.payload_id) = 1 then p.body end as body,
      hooks.updated_at as version, hooks.recent_failures
    from taken
    join hooks on hooks.id = taken.webhook_id
    cross join lateral (
      select trigger, chain_id, body from webhook_payloads
      where webhook_payloads.id = taken.payload_id and webhook_payloads.created_at = taken.created_at offset 0
    ) p
    order by taken.next_attempt_at`.execute(db);
  return rows;
};

/**
 * Claims the oldest delivery of each disabled hook whose time has come, as a probe. Also moves the hook's time forward,
 * so that no other process sends a second probe. If this process dies, the next probe goes out at that time.
 */
export const claimProbes = async (db: Database, processId: string, limit: number): Promise<Claimed[]> => {
  const { rows } = await sql<Claimed>`
    with due as materialized (
      select h.id from webhooks h
      where h.disabled_until <= now() and not h.disabled_permanently
        and exists (select from webhook_queue d where d.webhook_id = h.id and d.state = 'held' offset 0)
      order by h.disabled_until limit ${limit}::int
      for update skip locked
    ), probed as (
      update webhooks set disabled_until = now() + interval '30 seconds'
      where id = any (array(select id from due))
      returning id, updated_at, recent_failures
    ), picked as materialized (
      select oldest.delivery_id
      from probed cross join lateral (
        select d.delivery_id from webhook_queue d
        where d.webhook_id = probed.id and d.state = 'held' order by d.created_at limit 1
        for update skip locked
      ) oldest
    ), taken as (
      update webhook_queue set state = 'sending', claimed_by = ${processId}
      where delivery_id = any (array(select delivery_id from picked))
      returning delivery_id, webhook_id, payload_id, created_at, attempts
    )
    select taken.delivery_id as id, taken.created_at, taken.webhook_id, taken.payload_id, taken.attempts, p.trigger,
      p.chain_id, p.body, probed.updated_at as version, probed.recent_failures
    from taken
    join probed on probed.id = taken.webhook_id
    cross join lateral (
      select trigger, chain_id, body from webhook_payloads
      where webhook_payloads.id = taken.payload_id and webhook_payloads.created_at = taken.created_at offset 0
    ) p`.execute(db);
  return rows;
};

/** Releases claimed deliveries that were not sent. */
export const releaseClaims = async (db: Database, processId: string, ids: readonly string[]): Promise<void> => {
  await sql`
    update webhook_queue set state = 'waiting', claimed_by = null
    where delivery_id = any (${ids}::uuid[]) and state = 'sending' and claimed_by = ${processId}`.execute(db);
};

/** Releases the deliveries that a dead process had claimed. Idempotent. */
export const releaseProcess = async (db: Database, processId: string): Promise<void> => {
  await sql`
    update webhook_queue set state = 'waiting', claimed_by = null
    where state = 'sending' and claimed_by = ${processId};
  `.execute(db);
};

/**
 * Releases deliveries that no process is sending: those claimed by unknown processes, and those that this process
 * claimed without getting the answer. Dispatch claims deliveries before they reach the lanes, so new ones are left
 * alone. Returns how many.
 */
export const releaseLost = async (db: Database, processId: string, known: readonly string[]): Promise<number> => {
  const { numAffectedRows } = await sql`
    update webhook_queue d set state = 'waiting', claimed_by = null
    where d.state = 'sending' and case
      when d.claimed_by = ${processId}
        then d.created_at < now() - interval '10 seconds' and d.delivery_id <> all (${known}::uuid[])
      else not exists (select from hub_processes p where p.id = d.claimed_by) end`.execute(db);
  return Number(numAffectedRows ?? 0);
};

/** Returns whether any process has deliveries due or in progress. For tests. */
export const isAnythingDue = async (db: Database): Promise<boolean> => {
  const { rows } = await sql<{ due: boolean }>`
    select exists (
      select from webhook_queue d join webhooks h on h.id = d.webhook_id
      where (d.state = 'sending' or (d.state = 'waiting' and d.next_attempt_at <= now()))
        and h.disabled_until is null and not h.disabled_permanently
    ) as due`.execute(db);
  return rows[0]?.due ?? false;
};
