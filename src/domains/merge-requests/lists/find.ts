import { type RawBuilder, sql } from 'kysely';
import { actorShape } from '#domains/access/policy.ts';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { countUnlessKnown } from '#platform/db/known-counts.ts';
import { countUnlessLarge } from '#platform/db/large-lists.ts';
import { badCursor, isBadCursor, type List, type Window } from '#platform/db/list.ts';
import { driversOf, ofPlace, stateDriver } from './drivers.ts';
import type { MergeRequestFilter } from './filter.ts';
import { cursorOf, type ListedRow, type Order, orderOf } from './order.ts';
import {
  byProject,
  counting,
  countingDrawn,
  gather,
  type ListScope,
  pageStatement,
  readAll,
  type Wanted,
  walk,
  walkRanked,
} from './statements.ts';

/** After this many rows a walk treats the matches as rare and stops. */
const NEAR = 2_000;
/** The most rows of a driver that are looked up for a page, and for a count. */
const MOST_DRAWN = 10_000;
const MOST_COUNTED = 20_000;

/** `walk`, `all`, or the index of a driver. */
type Way = 'walk' | 'all' | number;

/** Remembers for a minute which way found a list. This affects only the cost, never the result. */
const ways = defineCache<string, Way>({ name: 'ways of merge request lists', limit: 2_000, ttlMs: 60_000 });

interface Found extends ListedRow {
  /** Of all matches. Null if they were not counted. */
  readonly total: number | null;
  /** How many rows the driver found. Null without a driver. */
  readonly drawn: number | null;
  readonly seen?: string;
}

/** Lists merge requests, with these columns of each (decision 41). The caller checks access to a single project. */
export const findMergeRequests = (
  ctx: Context,
  filter: MergeRequestFilter,
  place: ListScope,
  columns: RawBuilder<unknown>,
): List<ListedRow> => {
  const { actor } = ctx;
  const order = orderOf(filter);
  const wanted: Wanted = { actor, filter, place, order };
  const selective = driversOf(actor, filter, place);
  const drivers = [...selective, ...stateDriver(filter, place)];
  const list = `merge requests|${actor.userId}|${actorShape(actor)}${actor.job?.projectId ?? ''}|${JSON.stringify([place, filter])}`;
  let total: number | null = null;
  /** The snapshot that the page was read from (platform/db/known-counts.ts). */
  let seen: string | null = null;

  /** Returns null if this way does not find the whole page. */
  const tryWay = async (way: Way, window: Window): Promise<readonly Found[] | null> => {
    const read = async (page: RawBuilder<unknown>) =>
      (await sql<Found>`${pageStatement(wanted, columns, window, page)}`.execute(ctx.db)).rows;
    if (way === 'walk') {
      if (startsOutsideIndex(order, window)) return null;
      const { ranked } = order;
      const rows = await read(
        ranked
          ? walkRanked(wanted, window, ranked, ranked.ids(ofPlace(place.project_id)), MOST_DRAWN, near(window))
          : walk(wanted, window, near(window)),
      );
      return rows.length < window.limit || (rows[0]?.drawn ?? 0) > MOST_DRAWN ? null : rows;
    }
    const driver = way === 'all' ? undefined : drivers[way];
    if (!driver) {
      const isLarge = place.project_id !== undefined || (actor.isAdmin && place.group_id === undefined);
      return read(isLarge ? readAll(wanted, window) : byProject(wanted, window));
    }
    const rows = await read(gather(wanted, window, driver, MOST_DRAWN));
    const [first] = rows;
    if (first && (first.drawn ?? 0) > MOST_DRAWN) return null;
    total = first?.total ?? 0;
    // Without matches there is a single row, which has no id.
    return rows.filter(({ id }) => id !== null);
  };

  return {
    rows: async (window) => {
      const known = ways(ctx.services).get(list);
      const order: readonly Way[] = ['walk', ...drivers.keys(), 'all'];
      // A later page may be short, and then no walk finds it. That says nothing about the first page.
      const isFirst = !window.after && !window.before && !window.offset && !window.backwards;
      try {
        for (const way of known === undefined ? order : [known, ...order]) {
          const rows = await tryWay(way, window);
          if (!rows) continue;
          if (way !== known && isFirst) ways(ctx.services).set(list, way);
          seen = ctx.db === ctx.services.db ? (rows[0]?.seen ?? null) : null;
          return [...rows];
        }
        return [];
      } catch (error) {
        throw isBadCursor(error, window) ? badCursor() : error;
      }
    },
    count: (atMost) => {
      const count = async (statement: RawBuilder<unknown>) => {
        const { rows } = await sql<{ count: number; seen: string; drawn?: number }>`${statement}`.execute(ctx.db);
        return rows[0] ?? { count: 0, seen: '' };
      };
      if (total !== null) return Promise.resolve(Math.min(total, atMost + 1));
      return countUnlessLarge(ctx, list, atMost, () =>
        countUnlessKnown(ctx, `${atMost}|${list}`, seen, async () => {
          for (const driver of isByAuthor(filter) ? [] : selective) {
            const found = await count(countingDrawn(wanted, driver, MOST_COUNTED));
            if ((found.drawn ?? 0) <= MOST_COUNTED) return { ...found, count: Math.min(found.count, atMost + 1) };
          }
          return count(counting(wanted, atMost + 1));
        }),
      );
    },
    cursorOf: (row) => cursorOf(order, row),
  };
};

/** Returns true if the page starts, from the end of the list, among rows that the index of the order lacks. */
const startsOutsideIndex = ({ missing }: Order, { backwards = false, before }: Window): boolean =>
  missing !== null && backwards && (!before || before[0] === missing);

/** Returns how many rows to walk, as a power of two: each value needs a statement of its own. */
const near = ({ limit, offset = 0 }: Window): number =>
  Math.max(NEAR, 2 ** Math.ceil(Math.log2(20 * (limit + offset))));

/** Returns true if an index on merge requests alone has what the list selects: then a count needs no driver. */
const isByAuthor = ({ author, scope, state, order_by, sort, ...others }: MergeRequestFilter): boolean =>
  (author != null || scope === 'created_by_me') && Object.values(others).every((value) => value == null);
