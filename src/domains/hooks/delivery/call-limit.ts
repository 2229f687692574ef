import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';

/** An event's root namespace and the number of calls it would cause. */
export interface Calling {
  /** The outermost namespace, or null for none. */
  readonly root: number | null;
  readonly calls: number;
}

/**
 * Returns for each event how many of its calls fit into the minute limit of its root namespace (setting
 * `web_hook_calls_per_minute`). Counts in the transaction that writes the deliveries, so both commit or neither does.
 */
export const allowedCalls = async (tx: Tx, events: readonly Calling[]): Promise<number[]> => {
  const { web_hook_calls_per_minute: limit } = await getSettings(tx);
  if (limit === 0) return events.map(({ calls }) => calls);
  const left = new Map<number, number>();
  for (const [root, ofRoot] of Map.groupBy(events, (event) => event.root)) {
    if (root === null) continue;
    const calls = ofRoot.reduce((sum, event) => sum + event.calls, 0);
    const { rows } = await sql<{ count: number }>`
      insert into rate_counts as c (key, count, resets_at)
      values (${`hooks.calls:${root}`}, ${calls}::int, now() + interval '1 minute')
      on conflict (key) do update set
        count = case when c.resets_at <= now() then 0 else least(c.count, 1000000000) end + excluded.count,
        resets_at = case when c.resets_at <= now() then excluded.resets_at else c.resets_at end
      returning count`.execute(tx.db);
    left.set(root, Math.max(0, limit - ((rows[0]?.count ?? 0) - calls)));
  }
  return events.map(({ root, calls }) => {
    if (root === null) return calls;
    const allowed = Math.min(calls, left.get(root) ?? 0);
    left.set(root, (left.get(root) ?? 0) - allowed);
    return allowed;
  });
};
