import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { webhookAlertStatusChanged } from '../events.ts';
import { type AlertStatus, alertStatus } from '../model.ts';
import { LEAST_ROLES } from '../policy.ts';
import { mailOwners } from './owner-mails.ts';
import { namespaceIdsOf } from './record.ts';

/** A summary of recent attempts to deliver to a hook. */
export interface Findings {
  readonly webhook_id: number;
  /** At least one attempt succeeded. */
  readonly succeeded: boolean;
  /** The number of failures after the last success. */
  readonly failures: number;
  /** The group includes a probe, which tests whether the receiver has recovered. */
  readonly probe: boolean;
  /** The receiver answered 410, or the OAuth grant of the application that created the hook has ended. */
  readonly gone: boolean;
  /** The attempt was requested by a person and succeeded, so it also enables a permanently disabled hook. */
  readonly revives?: boolean;
}

interface Changed {
  readonly id: number;
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly name: string;
  readonly url: string;
  readonly recent_failures: number;
  readonly disabled_permanently: boolean;
  readonly disabled_until: string | null;
  readonly was_permanently: boolean;
  readonly was_until: string | null;
  readonly namespace_ids: readonly number[];
}

/**
 * Applies the rules of a hook's health (reference: webhooks §1 "Ours"). The fourth failure in a row disables the hook
 * for a minute, and each failed probe doubles the time. The fortieth failure or a 410 disables it permanently. A
 * success enables it and releases held deliveries. Failures of a disabled hook count only if they are probes, so one
 * outage does not use up its chances.
 *
 * Returns the ids of the hooks that are disabled now.
 */
export const applyFindings = async (tx: Tx, findings: readonly Findings[]): Promise<ReadonlySet<number>> => {
  const { rows } = await sql<Changed>`
      with given as materialized (
        select * from json_to_recordset(${JSON.stringify(findings)}::json) as (
          webhook_id bigint, succeeded boolean, failures int, probe boolean, gone boolean, revives boolean)
      ), hooks as materialized (
        select h.id, h.recent_failures, h.disabled_until, h.disabled_permanently, given.*,
          case when given.succeeded then 0 else h.recent_failures end as base
        from webhooks h join given on given.webhook_id = h.id
        where h.id = any (${findings.map(({ webhook_id }) => webhook_id)}::bigint[])
        order by h.id for no key update of h
      ), counted as materialized (
        select *, case
          when failures = 0 then base
          when probe then base + failures
          when base >= 4 or (disabled_until is not null and not succeeded) then base
          else least(base + failures, 4) end as failed
        from hooks
      )
      update webhooks h set
        recent_failures = counted.failed,
        disabled_until = case
          when counted.failed >= 4 and (counted.failed > counted.base or counted.probe)
            then now() + least(interval '24 hours', interval '1 minute' * (2 ^ least(counted.failed - 4, 12)))
          when counted.succeeded then null
          else h.disabled_until end,
        disabled_permanently = (h.disabled_permanently and counted.revives is not true) or counted.gone
          or counted.failed >= 40
      from counted
      where h.id = any (${findings.map(({ webhook_id }) => webhook_id)}::bigint[]) and h.id = counted.id
      returning h.id, h.namespace_id, h.project_id, h.name, h.url, h.recent_failures, h.disabled_permanently,
        h.disabled_until, counted.disabled_permanently as was_permanently, counted.disabled_until as was_until,
        ${namespaceIdsOf} as namespace_ids`.execute(tx.db);
  const live: number[] = [];
  const blocked = new Set<number>();
  for (const row of rows) {
    const previous = alertStatus({ disabled_permanently: row.was_permanently, disabled_until: row.was_until });
    const current: AlertStatus = alertStatus(row);
    if (current === 'executable') live.push(row.id);
    else blocked.add(row.id);
    if (previous === current) continue;
    if (current !== 'executable') tx.enqueue(mailOwners, { webhook_id: row.id }, { key: `hooks.disabled:${row.id}` });
    tx.emit(webhookAlertStatusChanged, {
      min_access_level: LEAST_ROLES[row.project_id === null ? 'group' : 'project'],
      subject: { type: 'Webhook', id: row.id },
      project_id: row.project_id,
      namespace_ids: row.namespace_ids,
      payload: {
        id: row.id,
        namespace_id: row.namespace_id,
        project_id: row.project_id,
        name: row.name,
        url: row.url,
        previous,
        current,
        disabled_until: row.disabled_until,
        recent_failures: row.recent_failures,
      },
    });
  }
  if (live.length > 0) await releaseHeld(tx.db, live);
  return blocked;
};

/**
 * Releases the held deliveries of hooks. Call it in the transaction that enabled them, after the update: by then it
 * sees what `claimDue` has set aside.
 */
export const releaseHeld = async (db: Database, webhookIds: readonly number[]): Promise<void> => {
  await sql`
    with released as (
      update webhook_queue set state = 'waiting' where webhook_id = any (${webhookIds}::bigint[]) and state = 'held'
      returning 1
    )
    select pg_notify('webhook_deliveries', '') where exists (select from released)`.execute(db);
};
