import { sql } from 'kysely';
import { defineCache } from '../cache.ts';
import type { Context } from '../context.ts';

/**
 * Identifies the committed state that a statement sees, and the day. Two statements with equal values saw the same rows
 * and the same expired roles.
 */
export const SEEN = sql<string>`(select pg_current_snapshot()::text || ' ' || current_date)`;

interface KnownCount {
  readonly seen: string;
  readonly count: number;
}

const knownCounts = defineCache<string, KnownCount>({ name: 'counts of lists', limit: 2_000 });

/**
 * Counts a list, and reuses the count until anything is committed to the database. Reading further pages then needs no
 * new count. `seen` is the value of `SEEN` that a statement has just read. It is null if there is none, or if the
 * statement also sees changes of its own transaction. `list` identifies the list and the rights that it is read with.
 */
export const countUnlessKnown = async (
  { services }: Pick<Context, 'services'>,
  list: string,
  seen: string | null,
  count: () => Promise<KnownCount>,
): Promise<number> => {
  const counts = knownCounts(services);
  const known = counts.get(list);
  if (known && known.seen === seen) return known.count;
  const counted = await count();
  if (seen === null) return counted.count;
  counts.set(list, { seen: counted.seen, count: counted.count });
  return counted.count;
};
