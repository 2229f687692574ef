import type { Context, Services } from '../context.ts';

const LARGE_MS = 60_000;
const MAX_REMEMBERED = 1_000;
/** Lists that are known to exceed their limit, with the time until which they are not counted again. */
const largeLists = new WeakMap<Services, Map<string, number>>();

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
  const large = largeLists.get(services) ?? new Map<string, number>();
  largeLists.set(services, large);
  const key = `${atMost}|${list}`;
  if ((large.get(key) ?? 0) > performance.now()) return atMost + 1;
  const counted = await count();
  if (counted > atMost) {
    if (large.size >= MAX_REMEMBERED) large.clear();
    large.set(key, performance.now() + LARGE_MS);
  }
  return counted;
};
