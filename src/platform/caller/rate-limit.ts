import { z } from 'zod';
import type { Services } from '../context.ts';
import { defineJob } from '../jobs.ts';
import { digestToken } from '../secrets.ts';

export interface RateRule {
  /** The number of hits allowed in `seconds`. */
  readonly limit: number;
  readonly seconds: number;
}

export interface RateCount {
  /** False for every hit above the limit. */
  readonly allowed: boolean;
  readonly limit: number;
  /** The number of hits in the current window, including this one. */
  readonly observed: number;
  readonly remaining: number;
  readonly resetsAt: Date;
  /** Whole seconds, at least 1. */
  readonly retryAfterSeconds: number;
}

/**
 * Counts one hit for `key` (such as `sign-in:<address>`), across all processes of the database. Returns whether it is
 * within the limit. A window starts with its first hit. Hits above the limit count too, but do not extend the window.
 */
export const hit = async ({ pool }: Pick<Services, 'pool'>, key: string, rule: RateRule): Promise<RateCount> => {
  const { rows } = await pool.query<{ count: number; epoch: number; seconds: number }>(COUNT, [
    storable(key),
    rule.seconds,
  ]);
  const [row] = rows;
  if (!row) throw new Error('a count was not returned');
  return {
    allowed: row.count <= rule.limit,
    limit: rule.limit,
    observed: row.count,
    remaining: Math.max(0, rule.limit - row.count),
    resetsAt: new Date(row.epoch * 1_000),
    retryAfterSeconds: Math.max(1, row.seconds),
  };
};

/** Returns the state of `key` like `hit`, without counting a hit. */
export const observe = async (
  { pool }: Pick<Services, 'pool'>,
  key: string,
  { limit, seconds }: RateRule,
): Promise<RateCount> => {
  const { rows } = await pool.query<{ count: number; epoch: number; seconds: number }>(OBSERVE, [storable(key)]);
  const row = rows[0] ?? { count: 0, epoch: Date.now() / 1_000 + seconds, seconds };
  return {
    allowed: row.count <= limit,
    limit,
    observed: row.count,
    remaining: Math.max(0, limit - row.count),
    resetsAt: new Date(row.epoch * 1_000),
    retryAfterSeconds: Math.max(1, row.seconds),
  };
};

/** Resets the count of `key`. */
export const forget = async ({ pool }: Pick<Services, 'pool'>, key: string): Promise<void> => {
  await pool.query('delete from rate_counts where key = $1', [storable(key)]);
};

const OBSERVE = `
  select count, ceil(extract(epoch from resets_at))::bigint as epoch,
    ceil(extract(epoch from resets_at - now()))::integer as seconds
  from rate_counts where key = $1 and resets_at > now()`;

// The next hit overwrites an expired window, so counts are correct even before the sweep.
const COUNT = `
  insert into rate_counts as c (key, count, resets_at) values ($1, 1, now() + make_interval(secs => $2))
  on conflict (key) do update set
    count = case when c.resets_at <= now() then 1 else least(c.count, 1000000000) + 1 end,
    resets_at = case when c.resets_at <= now() then excluded.resets_at else c.resets_at end
  returning count, ceil(extract(epoch from resets_at))::bigint as epoch,
    ceil(extract(epoch from resets_at - now()))::integer as seconds`;

/** Keys may contain user input: only short and plain keys are stored as they are, others as digests. */
const storable = (key: string): string =>
  /^[\w:.@/-]{1,200}$/.test(key) ? key : digestToken(key).toString('base64url');

/** The job `rate_counts.sweep`: removes counts of expired windows. */
export const sweepRateCounts = defineJob({
  name: 'rate_counts.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '41 * * * *',
  run: async ({ services: { pool } }) => {
    await pool.query('delete from rate_counts where resets_at < now()');
  },
});
