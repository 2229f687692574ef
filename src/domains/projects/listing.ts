import { sql } from 'kysely';
import { actorShape, actorTemplate } from '#domains/access/policy.ts';
import type { Actor, Context, Services } from '#platform/context.ts';
import type { CursorValues } from '#platform/cursor.ts';
import {
  type BatchedList,
  batchedCounts,
  batchedRows,
  groupedByParent,
  type OfParent,
  PARENT,
} from '#platform/db/batched-list.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import { countUnlessKnown } from '#platform/db/known-counts.ts';
import { countUnlessLarge } from '#platform/db/large-lists.ts';
import { badCursor, isBadCursor, type List, type Window } from '#platform/db/list.ts';
import {
  filterShape,
  filterValues,
  leastHeld,
  type ParentFilter,
  type ProjectFilter,
  type ProjectOrder,
  withoutBlanks,
} from './filter.ts';
import { counting, gather, matching, pageStatement, type Wanted, walk, walkAndGather } from './list-statements.ts';
import type { ProjectDetails, ProjectRow } from './model.ts';
import { effectiveOrder } from './order.ts';
import { finish } from './reading.ts';
import { type ProjectPart, partsShape, type RawProject, ROW } from './select.ts';
import { afterSpellings, asksForTopics } from './topic-spellings.ts';

/** How a page is found (docs/decisions/0012). */
type Way = 'walk' | 'gather';

/** After this many rows a walk treats the matches as rare and stops. */
const NEAR = 2_000;
/** Above this many matches, gathering and sorting for a page costs too much. */
const MANY = 5_000;
const FAR = 100;

const statements = new CompiledStatements();

/** Lists the projects that match the filter and that the caller can see, with the given parts. */
export const projectList = (
  ctx: Context,
  given: ProjectFilter,
  parts: readonly ProjectPart[],
): List<ProjectDetails> => {
  const list = listBy(ctx, given, parts);
  if (!asksForTopics(given)) return list;
  const spelt = afterSpellings(ctx, given, list, (filter) => listBy(ctx, filter, parts));
  return {
    rows: async (window) => (await spelt()).rows(window),
    count: async (atMost) => (await spelt()).count(atMost),
    cursorOf: list.cursorOf,
  };
};

const listBy = (ctx: Context, given: ProjectFilter, parts: readonly ProjectPart[]): List<ProjectDetails> => {
  const { actor } = ctx;
  const filter = withinReach(actor, withoutBlanks(given));
  const shape = `${actorShape(actor)}|${filterShape(filter)}`;
  const list = `${actor.userId}|${shape}|${JSON.stringify(filter)}`;
  const order = effectiveOrder(actor, filter);
  const values = filterValues(filter);
  const wanted = new Set(parts);
  const other = otherWay(actor, filter);
  /** The number of all matches, if the page was cut out of them. */
  let total: number | null = null;
  /** The snapshot that the page was read from (platform/db/known-counts.ts). */
  let seen: string | null = null;

  const run = async (way: Way, window: Window): Promise<RawProject[]> => {
    const most = other === null ? null : near(window);
    const name = `${way}|${most ?? ''}|${shape}|${partsShape(parts)}|${windowShape(window)}`;
    const statement = statements.get(ctx, name, () => {
      const asked: Wanted = { actor: actorTemplate(actor), filter, ascending: isAscending(order, filter) };
      const page =
        way === 'walk'
          ? walk(asked, window, most)
          : other === 'walk and gather'
            ? walkAndGather(asked, window)
            : gather(asked, window);
      return pageStatement(asked, parts, window, page);
    });
    return runCompiled<RawProject>(ctx, statement, {
      ...values,
      offset: window.offset,
      ...cursorSlots('after', window.after),
      ...cursorSlots('before', window.before),
    });
  };

  return {
    rows: async (window) => {
      const ways = waysOf(ctx);
      // Far from the start, walking along the open projects is cheaper, as it needs no lookups.
      const isFar = other === 'walk and gather' && (window.offset ?? 0) > FAR;
      const way = isFar
        ? 'gather'
        : (ways.get(list) ?? (isDriven(filter) || order === 'similarity' ? 'gather' : 'walk'));
      try {
        let rows = way === 'walk' ? await run('walk', window) : [];
        if (way === 'gather' || (other !== null && rows.length < window.limit)) {
          rows = await run('gather', window);
          total = rows[0]?.total ?? null;
          if (!isFar) ways.set(list, total !== null && total > MANY && order !== 'similarity' ? 'walk' : 'gather');
        }
        seen = ctx.db === ctx.services.db ? (rows[0]?.seen ?? null) : null;
        return await finish(ctx, rows, wanted);
      } catch (error) {
        throw isBadCursor(error, window) ? badCursor() : error;
      }
    },
    count: (atMost) =>
      total === null
        ? countUnlessLarge(ctx, `projects|${list}`, atMost, () =>
            countUnlessKnown(ctx, `projects|${atMost}|${list}`, seen, async () => {
              const statement = statements.get(ctx, `count|${shape}`, () =>
                counting({ actor: actorTemplate(actor), filter, ascending: true }, other === 'gather'),
              );
              const [row] = await runCompiled<{ count: number; seen: string }>(ctx, statement, {
                ...values,
                at_most: atMost + 1,
              });
              return row ?? { count: 0, seen: '' };
            }),
          )
        : Promise.resolve(Math.min(total, atMost + 1)),
    cursorOf: (row) => cursorOf(order, row),
  };
};

/**
 * The same list for many parents at once: the projects of each group on a page, or with `by`, the forks of each project
 * or the stars of each user. The filter's own value for `by` is ignored.
 */
export const listProjectsBelow = (
  ctx: Context,
  filter: ProjectFilter,
  parts: readonly ProjectPart[] = ROW,
  by: ParentFilter = 'namespace_id',
): BatchedList<ProjectRow> => {
  const list = listBelow(ctx, filter, parts, by);
  if (!asksForTopics(filter)) return list;
  const spelt = afterSpellings(ctx, filter, list, (other) => listBelow(ctx, other, parts, by));
  return {
    rows: async (parents, window) => (await spelt()).rows(parents, window),
    counts: async (parents, atMost) => (await spelt()).counts(parents, atMost),
    cursorOf: list.cursorOf,
  };
};

const listBelow = (
  ctx: Context,
  filter: ProjectFilter,
  parts: readonly ProjectPart[],
  by: ParentFilter,
): BatchedList<ProjectRow> => {
  const { actor } = ctx;
  // Only its presence matters. Each parent supplies its own id.
  const below = withinReach(actor, { ...withoutBlanks(filter), [by]: 0 });
  const shape = `${by}|${actorShape(actor)}|${filterShape(below)}`;
  const order = effectiveOrder(actor, below);
  const values = filterValues(below);
  const asked = (): Wanted => ({
    actor: actorTemplate(actor),
    filter: below,
    ascending: isAscending(order, below),
    of: { by, id: PARENT },
  });
  // A single parent is an ordinary list, which may be too long to gather for a page.
  let alone: { readonly parent: number; readonly list: List<ProjectDetails> } | null = null;
  const listOf = (parent: number) => {
    if (alone?.parent !== parent) alone = { parent, list: listBy(ctx, { ...filter, [by]: parent }, parts) };
    return alone.list;
  };
  return {
    rows: async (parents, window) => {
      const [parent] = parents;
      if (parent !== undefined && parents.length === 1) return new Map([[parent, await listOf(parent).rows(window)]]);
      const statement = statements.get(ctx, `below|${shape}|${partsShape(parts)}|${windowShape(window)}`, () =>
        batchedRows(slot('parents'), pageStatement(asked(), parts, window, gather(asked(), window))),
      );
      try {
        const rows = await runCompiled<RawProject & OfParent>(ctx, statement, {
          ...values,
          parents,
          ...cursorSlots('after', window.after),
          ...cursorSlots('before', window.before),
        });
        return groupedByParent(await finish(ctx, rows, new Set(parts)));
      } catch (error) {
        throw isBadCursor(error, window) ? badCursor() : error;
      }
    },
    counts: async (parents, atMost) => {
      const [parent] = parents;
      if (parent !== undefined && parents.length === 1) return new Map([[parent, await listOf(parent).count(atMost)]]);
      const statement = statements.get(ctx, `counts|${shape}`, () =>
        batchedCounts(slot('parents'), sql`${matchingBelow(asked())} limit ${slot('at_most')}::bigint`),
      );
      const rows = await runCompiled<OfParent & { count: number }>(ctx, statement, {
        ...values,
        parents,
        at_most: atMost + 1,
      });
      return new Map(rows.map((row) => [row.batch_parent_id, row.count]));
    },
    cursorOf: (row) => cursorOf(order, row),
  };
};

const matchingBelow = (asked: Wanted) => sql`select 1 from (${matching(asked)}) matching`;

/** Limits similarity to the caller's projects or to one place (specification 1 §4.5). */
const withinReach = (actor: Actor, filter: ProjectFilter): ProjectFilter =>
  effectiveOrder(actor, filter) === 'similarity' && (filter.namespace_id ?? null) === null
    ? { ...filter, membership: true }
    : filter;

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
const otherWay = (actor: Actor, filter: ProjectFilter): 'gather' | 'walk and gather' | null => {
  if (isDriven(filter) || isSought(actor, filter)) return 'gather';
  return actor.userId === null || actor.isAdmin ? null : 'walk and gather';
};

/** Returns the maximum number of rows to walk, as a power of two: each value needs a statement of its own. */
const near = ({ limit, offset = 0 }: Window): number =>
  Math.max(NEAR, 2 ** Math.ceil(Math.log2(20 * (limit + offset))));

const MAX_LISTS = 2_000;
const FOR_MS = 60_000;

/** Remembers for a minute which way found a list. This affects only the cost, never the result. */
class Ways {
  readonly #ways = new Map<string, { readonly way: Way; readonly until: number }>();

  get(list: string): Way | undefined {
    const known = this.#ways.get(list);
    return known && known.until > performance.now() ? known.way : undefined;
  }

  set(list: string, way: Way): void {
    if (this.#ways.size >= MAX_LISTS) this.#ways.clear();
    this.#ways.set(list, { way, until: performance.now() + FOR_MS });
  }
}
const allWays = new WeakMap<Services, Ways>();
const waysOf = ({ services }: Context): Ways => {
  const ways = allWays.get(services) ?? new Ways();
  allWays.set(services, ways);
  return ways;
};

// Similarity lists the best match first, regardless of `sort`.
const isAscending = (order: ProjectOrder, { sort }: ProjectFilter): boolean => order !== 'similarity' && sort === 'asc';

const cursorOf = (
  order: ProjectOrder,
  row: ProjectRow & { readonly sort_key?: RawProject['sort_key'] },
): CursorValues => (order === 'id' ? [row.id] : [row.sort_key ?? null, row.id]);

const windowShape = ({ limit, offset, after, before, backwards }: Window): string =>
  `${limit}${offset === undefined ? '' : offset > 0 ? 'o' : 'f'}${after ? 'a' : ''}${before ? 'b' : ''}${backwards ? 'r' : ''}`;

const cursorSlots = (name: string, cursor: Window['after']) => ({
  [`${name}_0`]: cursor?.[0] ?? null,
  [`${name}_1`]: cursor?.[1] ?? null,
});
