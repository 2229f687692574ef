import { sql } from 'kysely';
import type { Context, Services } from '../context.ts';

/**
 * What was committed when a statement ran, and the day: two statements that tell the same saw the same rows, and counted the
 * same roles that expire.
 */
export const SEEN = sql<string>`(select pg_current_snapshot()::text || ' ' || current_date)`;

interface KnownCount {
  readonly seen: string;
  readonly count: number;
}

const MAX_REMEMBERED = 2_000;
const knownCounts = new WeakMap<Services, Map<string, KnownCount>>();

/**
 * Counts of lists that hold for as long as nothing is committed to the database, whatever it is: whoever reads one page
 * after the other need not have them counted each time. `seen` is what a statement just told by `SEEN`, null where none
 * did or where it also sees what its own transaction has changed. `list` names the list with the rights it is read with.
 */
export const countUnlessKnown = async (
  { services }: Pick<Context, 'services'>,
  list: string,
  seen: string | null,
  count: () => Promise<KnownCount>,
): Promise<number> => {
  const counts = knownCounts.get(services) ?? new Map<string, KnownCount>();
  knownCounts.set(services, counts);
  const known = counts.get(list);
  if (known && known.seen === seen) return known.count;
  const counted = await count();
  if (seen === null) return counted.count;
  if (counts.size >= MAX_REMEMBERED) counts.clear();
  counts.set(list, { seen: counted.seen, count: counted.count });
  return counted.count;
};
