import { defineCache } from '../cache.ts';
import type { Context } from '../context.ts';

/** Lists that are known to exceed their limit, and are not counted again for a minute. */
const largeLists = defineCache<string, true>({ name: 'large lists', limit: 1_000, ttlMs: 60_000 });

/**
 * Returns the result of `count`, which stops at `atMost + 1`. Remembers for a minute that a list is longer than
 * `atMost`, because counting up to the limit is the most expensive case. `list` identifies the list across callers: its
 * rights and its filters.
 */
export const countUnlessLarge = async (
  { services }: Pick<Context, 'services'>,
  list: string,
  atMost: number,
  count: () => Promise<number>,
): Promise<number> => {
  const large = largeLists(services);
  const key = `${atMost}|${list}`;
  if (large.get(key)) return atMost + 1;
  const counted = await count();
  if (counted > atMost) large.set(key, true);
  return counted;
};
