import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/** Recent delivery statistics of a hook. */
export interface HookStatistics {
  /** Attempts in the window. */
  readonly attempts: number;
  readonly successes: number;
  /** From 0 to 1. Null without attempts. */
  readonly success_rate: number | null;
  /** Milliseconds until the response was read or the attempt was given up. Null without attempts. */
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  /** The start of the window. */
  readonly since: string;
  readonly last_failure: {
    readonly attempt_id: number;
    readonly at: string;
    readonly response_status: number | null;
    readonly error: string | null;
  } | null;
  /** The deliveries that are waiting, and those held because the hook is disabled. Each counts up to 10,000. */
  readonly waiting: number;
  readonly held: number;
}

const DAYS = 7;
/** For a busy hook the window is shorter, so that the query does not grow with the retained data. */
const MAX_ATTEMPTS = 10_000;
const MAX_COUNT = 10_000;

interface Row extends Omit<HookStatistics, 'success_rate' | 'last_failure'> {
  readonly failure_id: number | null;
  readonly failure_at: string | null;
  readonly failure_status: number | null;
  readonly failure_error: string | null;
}

/** Returns the statistics of one hook. @see hookStatisticsByIds */
export const getHookStatistics = async (ctx: Pick<Context, 'db'>, hookId: number): Promise<HookStatistics> => {
  const found = (await hookStatisticsByIds(ctx, [hookId])).get(hookId);
  if (!found) throw new Error('statistics of a hook were not returned');
  return found;
};

/**
 * Returns the statistics of the last seven days by hook id, over at most the newest 10,000 attempts each. The caller
 * must check access.
 */
export const hookStatisticsByIds = async (
  ctx: Pick<Context, 'db'>,
  hookIds: readonly number[],
): Promise<Map<number, HookStatistics>> => {
  const { rows } = await sql<Row & { id: number }>`
    select hook.id, lately.*, failure.*,
      (select count(*) from (select from webhook_queue d where d.webhook_id = hook.id and d.state = 'waiting'
        limit ${sql.lit(MAX_COUNT)}) d) as waiting,
      (select count(*) from (select from webhook_queue d where d.webhook_id = hook.id and d.state = 'held'
        limit ${sql.lit(MAX_COUNT)}) d) as held
    from unnest(${hookIds}::bigint[]) as hook (id)
    cross join lateral (
      select count(*) as attempts, count(*) filter (where error is null) as successes,
        percentile_cont(0.5) within group (order by duration_ms) as p50_ms,
        percentile_cont(0.95) within group (order by duration_ms) as p95_ms,
        case when count(*) < ${sql.lit(MAX_ATTEMPTS)} then now() - interval '${sql.lit(DAYS)} days'
          else min(created_at) end as since
      from (
        select a.error, a.duration_ms, a.created_at from webhook_attempts a
        where a.webhook_id = hook.id order by a.id desc limit ${sql.lit(MAX_ATTEMPTS)}
      ) a
      where a.created_at > now() - interval '${sql.lit(DAYS)} days'
    ) lately
    left join lateral (
      select a.id as failure_id, a.created_at as failure_at, a.response_status as failure_status,
        a.error as failure_error
      from webhook_attempts a where a.webhook_id = hook.id and a.error is not null
      order by a.id desc limit 1
    ) failure on true`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, toStatistics(row)]));
};

const toStatistics = ({ failure_id, failure_at, failure_status, failure_error, ...row }: Row): HookStatistics => ({
  attempts: row.attempts,
  successes: row.successes,
  success_rate: row.attempts === 0 ? null : row.successes / row.attempts,
  p50_ms: row.p50_ms,
  p95_ms: row.p95_ms,
  since: row.since,
  last_failure:
    failure_id === null || failure_at === null
      ? null
      : { attempt_id: failure_id, at: failure_at, response_status: failure_status, error: failure_error },
  waiting: row.waiting,
  held: row.held,
});
