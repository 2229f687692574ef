import type { Context, Services } from '../context.ts';

const LARGE_MS = 60_000;
const MAX_REMEMBERED = 1_000;
/** Lists known to be longer than was asked, and until when: such a list is not counted again on every page. */
const largeLists = new WeakMap<Services, Map<string, number>>();

/**
 * What `count` gives, which stops at `atMost + 1`. That a list goes on beyond is remembered for a minute: to count so far
 * costs the most, and tells the least. `list` names it for all its callers: with whose rights, and what it is narrowed by.
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
