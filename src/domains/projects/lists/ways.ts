import { defineCache } from '#platform/cache.ts';
import type { Actor, Context } from '#platform/context.ts';
import type { Window } from '#platform/db/list.ts';
import { leastHeld, type ProjectFilter } from './filter.ts';
import { effectiveOrder } from './order.ts';

/** How a page is found (docs/decisions/0012). */
export type Way = 'walk' | 'gather';

/** After this many rows a walk treats the matches as rare and stops. */
const NEAR = 2_000;
/** Above this many matches, gathering and sorting for a page costs too much. */
const MANY = 5_000;
/** From this offset on, walking along the open projects is cheaper, as it needs no lookups. */
const FAR = 100;

/** Remembers for a minute which way found a list. This affects only the cost, never the result. */
const ways = defineCache<string, Way>({ name: 'ways of project lists', limit: 2_000, ttlMs: 60_000 });

/** Returns the way to try first for a page. `list` identifies the list and the caller. */
export const firstWay = (ctx: Context, list: string, filter: ProjectFilter, window: Window): Way => {
  if (isFar(ctx.actor, filter, window)) return 'gather';
  const isShort = isDriven(filter) || effectiveOrder(ctx.actor, filter) === 'similarity';
  return ways(ctx.services).get(list) ?? (isShort ? 'gather' : 'walk');
};

/** Notes that a page was gathered out of `total` rows (null if unknown), so that the next page starts the right way. */
export const noteGathered = (
  ctx: Context,
  list: string,
  filter: ProjectFilter,
  window: Window,
  total: number | null,
): void => {
  if (isFar(ctx.actor, filter, window)) return;
  const isLong = total !== null && total > MANY && effectiveOrder(ctx.actor, filter) !== 'similarity';
  ways(ctx.services).set(list, isLong ? 'walk' : 'gather');
};

const isFar = (actor: Actor, filter: ProjectFilter, { offset = 0 }: Window): boolean =>
  offset > FAR && otherWay(actor, filter) === 'walk and gather';

/** Returns true if the filter alone leads to few rows: memberships, one place, or names. */
const isDriven = (filter: ProjectFilter): boolean =>
  leastHeld(filter) > 0 ||
  filter.imported === true ||
  filter.personal === true ||
  filter.starred === true ||
  filter.marked_for_deletion === true ||
  [
    filter.ids,
    filter.full_paths,
    filter.forked_from_id,
    filter.namespace_id,
    filter.starred_by,
    filter.contributed_by,
    filter.marked_for_deletion_on,
    filter.custom_attributes,
  ].some((value) => value !== null && value !== undefined);

/** Returns true if the filter may match few rows and an index finds them. */
const isSought = (actor: Actor, filter: ProjectFilter): boolean => {
  const given = (...names: (keyof ProjectFilter)[]) =>
    names.some((name) => filter[name] !== null && filter[name] !== undefined);
  const order = effectiveOrder(actor, filter);
  if (
    given('topics', 'topic_id', 'topic_spellings', 'with_programming_language') ||
    filter.search ||
    filter.archived ||
    filter.active === false
  ) {
    return true;
  }
  if (order !== 'id' && given('id_after', 'id_before')) return true;
  if (order !== 'last_activity_at' && given('last_activity_after', 'last_activity_before')) return true;
  return (actor.userId === null || actor.isAdmin) && given('visibility');
};

/** Returns the fallback for a walk that finds too little; null if walking is the only or the best way. */
export const otherWay = (actor: Actor, filter: ProjectFilter): 'gather' | 'walk and gather' | null => {
  if (isDriven(filter) || isSought(actor, filter)) return 'gather';
  return actor.userId === null || actor.isAdmin ? null : 'walk and gather';
};

/** Returns the maximum number of rows to walk, as a power of two: each value needs a statement of its own. */
export const near = ({ limit, offset = 0 }: Window): number =>
  Math.max(NEAR, 2 ** Math.ceil(Math.log2(20 * (limit + offset))));
