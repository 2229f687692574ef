import { type RawBuilder, sql } from 'kysely';
import { actorShape } from '#domains/access/policy.ts';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { badCursor } from '#platform/cursor.ts';
import { chainedRows } from '#platform/db/chained-list.ts';
import { countUnlessKnown } from '#platform/db/known-counts.ts';
import { countUnlessLarge } from '#platform/db/large-lists.ts';
import { type List, unlessBadCursor, type Window } from '#platform/db/list.ts';
import type { Driver, Listed, ListPlace, Order, Prefix, Ranked, Wanted } from './lists/model.ts';
import {
  byProject,
  counting,
  countingDrawn,
  gather,
  isBelowGroup,
  pageStatement,
  readAll,
  walk,
  walkRanked,
} from './lists/statements.ts';

export { type Driver, isBelowGroup, type Listed, type ListPlace, type Order, type Prefix, type Ranked };

/** After this many rows a walk treats the matches as rare and stops. */
const NEAR = 2_000;
/** The same for a group: of all rows, and if only those of its projects are looked up. */
const NEAR_GROUP = 500;
const NEAR_IN_GROUP = 20_000;
/** The same before each project is asked for its first matches. */
const FAR = 32_768;
/** The most rows of a driver that are looked up for a page before and after a walk, and for a count. */
const FEW_DRAWN = 500;
const MOST_DRAWN = 10_000;
const MOST_COUNTED = 20_000;

/** A walk, `all`, or the index of a driver. */
type Way = Walk | 'all' | number;
type Walk = 'walk' | 'walk in group' | 'walk far';

/** Remembers for a minute which way found a list. This affects only the cost, never the result. */
const ways = defineCache<string, Way>({ name: 'ways of issue and merge request lists', limit: 2_000, ttlMs: 60_000 });

/** A list of issues or merge requests, and what finds it. */
export interface Sought<Row> extends Wanted<Row> {
  /** The columns of each row, as a part of `select`. */
  readonly columns: RawBuilder<unknown>;
  /** The ways to find the matches from an index, most selective first. */
  readonly drivers: readonly Driver[];
  /** The number of drivers, from the first, that may find few rows, and that can also make counting cheaper. */
  readonly countDrivers: number;
  /** Identifies the filter among all lists of the table. */
  readonly filter: unknown;
}

type Found<Row> = Row & {
  /** The number of all matches. Null if they were not counted. */
  readonly total: number | null;
  /** How many rows the driver found, or the walk passed. Null if they were not counted. */
  readonly drawn: number | null;
  readonly seen?: string;
};

/** Lists issues or merge requests (decision 41). The caller checks access to a single project. */
export const findListed = <Row extends Listed>(ctx: Context, sought: Sought<Row>): List<Row> => {
  const { actor } = ctx;
  const { table, place, order, drivers, columns } = sought;
  const list = `${table}|${actor.userId}|${actorShape(actor)}${actor.job?.projectId ?? ''}|${JSON.stringify([place, sought.filter])}`;
  /** Whether the index of the order has the project. */
  const isInGroup =
    place.group_id !== undefined && !order.ranked && sought.prefix.every(({ column }) => column === 'state');
  /** Whether the last way reads all projects of the place. */
  const isByProject = place.project_id === undefined && (!actor.isAdmin || place.group_id !== undefined);
  let total: number | null = null;
  /** The snapshot that the page was read from (platform/db/known-counts.ts). */
  let seen: string | null = null;

  const readPage = async (wanted: Wanted<Row>, window: Window, page: RawBuilder<unknown>) =>
    (await sql<Found<Row>>`${pageStatement(wanted, columns, window, page)}`.execute(ctx.db)).rows;

  const count = async (statement: RawBuilder<unknown>) => {
    const { rows } = await sql<{ count: number; seen: string; drawn?: number }>`${statement}`.execute(ctx.db);
    return rows[0] ?? { count: 0, seen: '' };
  };

  const drivenBy = ({ conditions = sought.conditions }: Driver): Wanted<Row> => ({ ...sought, conditions });

  /** Returns null if the walk stops before it finds the whole page. */
  const walked = async (window: Window, way: Walk): Promise<readonly Found<Row>[] | null> => {
    let isWhole = true;
    const least = { walk: isInGroup ? NEAR_GROUP : NEAR, 'walk in group': NEAR_IN_GROUP, 'walk far': FAR }[way];
    const rowsOf = async (wanted: Wanted<Row>, part: Window) => {
      const most = near(part, least);
      const rows = await readPage(wanted, part, walk(wanted, part, most, way === 'walk in group'));
      const found = matchesOf(rows);
      // A short page is the end of the list if the walk reached the end of the index.
      if (found.length < part.limit && (rows[0]?.drawn ?? most) >= most) isWhole = false;
      return found;
    };
    if (order.missing === null) {
      const rows = await rowsOf(sought, window);
      return isWhole ? rows : null;
    }
    const partOf = (wanted: Wanted<Row>) => ({
      rows: async (part: Window) => [...(await rowsOf(wanted, part))],
      count: async (atMost: number) => (await count(counting(wanted, atMost + 1))).count,
    });
    const column = sql.ref(`${table}.${order.column}`);
    const has = sql<boolean>`${column} is not null`;
    const parts = {
      first: partOf({ ...sought, conditions: [...sought.conditions, has], ranges: [...sought.ranges, has] }),
      second: partOf({
        ...sought,
        order: { ...order, keys: [], column: 'id', missing: null },
        conditions: [...sought.conditions, sql<boolean>`${column} is null`],
        ranges: [],
        prefix: sought.prefix.filter(({ column }) => column === 'project_id'),
      }),
    };
    const rows = await chainedRows(parts, (cursor) => String(cursor[0]) === String(order.missing), window);
    return isWhole ? rows : null;
  };

  /** Returns null if this way does not find the whole page. */
  const tryWay = async (way: Way, window: Window, most = MOST_DRAWN): Promise<readonly Found<Row>[] | null> => {
    const read = (page: RawBuilder<unknown>) => readPage(sought, window, page);
    if (way === 'walk' || way === 'walk in group' || way === 'walk far') {
      const { ranked } = order;
      if (!ranked) return walked(window, way);
      const rows = await read(
        walkRanked(sought, window, ranked, ranked.ids(place.project_id), MOST_DRAWN, near(window)),
      );
      return rows.length < window.limit || (rows[0]?.drawn ?? 0) > MOST_DRAWN ? null : rows;
    }
    const driver = way === 'all' ? undefined : drivers[way];
    if (!driver) {
      return read(isByProject ? byProject(sought, window) : readAll(sought, window));
    }
    const rows = await read(gather(drivenBy(driver), window, driver.ids, most));
    const [first] = rows;
    if (first && (first.drawn ?? 0) > most) return null;
    total = first?.total ?? 0;
    return matchesOf(rows);
  };

  return {
    rows: async (window) => {
      for (const cursor of [window.after, window.before])
        if (cursor && cursor.length !== order.keys.length + 1) throw badCursor();
      const known = ways(ctx.services).get(list);
      const tries: readonly (readonly [Way, number?])[] = [
        ...drivers
          .slice(0, sought.countDrivers)
          .flatMap(({ readsAll }, way) => (readsAll ? [] : [[way, FEW_DRAWN] as const])),
        ['walk'],
        ...(isInGroup ? [['walk in group'] as const] : []),
        ...drivers.map((_, way) => [way] as const),
        ...(isByProject && !order.ranked ? [['walk far'] as const] : []),
        ['all'],
      ];
      // A later page may be short, and then no walk finds it. That says nothing about the first page.
      const isFirst = !window.after && !window.before && !window.offset && !window.backwards;
      return unlessBadCursor(window, async () => {
        for (const [way, most] of known === undefined ? tries : [[known] as const, ...tries]) {
          const rows = await tryWay(way, window, most);
          if (!rows) continue;
          if (way !== known && isFirst) ways(ctx.services).set(list, way);
          seen = ctx.db === ctx.services.db ? (rows[0]?.seen ?? null) : null;
          return [...rows];
        }
        return [];
      });
    },
    count: (atMost) => {
      if (total !== null) return Promise.resolve(Math.min(total, atMost + 1));
      return countUnlessLarge(ctx, list, atMost, () =>
        countUnlessKnown(ctx, `${atMost}|${list}`, seen, async () => {
          for (const driver of drivers.slice(0, sought.countDrivers)) {
            const found = await count(countingDrawn(drivenBy(driver), driver.ids, MOST_COUNTED, atMost + 1));
            if ((found.drawn ?? 0) <= MOST_COUNTED || found.count > atMost) return found;
          }
          return count(counting(sought, atMost + 1));
        }),
      );
    },
    cursorOf: (row) => [...order.keys.map((key) => key.of(row)), row.id],
  };
};

/** Without matches there is a single row, which has no id. */
const matchesOf = <Row extends Listed>(rows: readonly Found<Row>[]): readonly Found<Row>[] =>
  rows.filter(({ id }) => id !== null);

/** Returns how many rows to walk, as a power of two: each value needs a statement of its own. */
const near = ({ limit, offset = 0 }: Window, least = NEAR): number =>
  Math.max(least, 2 ** Math.ceil(Math.log2(20 * (limit + offset))));
