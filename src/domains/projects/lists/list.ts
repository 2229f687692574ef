import { actorShape, actorTemplate } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { CompiledStatements, runCompiled } from '#platform/db/compiled.ts';
import { countUnlessKnown } from '#platform/db/known-counts.ts';
import { countUnlessLarge } from '#platform/db/large-lists.ts';
import { type List, unlessBadCursor, type Window } from '#platform/db/list.ts';
import { windowShape, windowValues } from '#platform/db/windows.ts';
import type { RawProject } from './assemble.ts';
import { filterShape, filterValues, type ProjectFilter, withoutBlanks } from './filter.ts';
import { cursorOf, effectiveOrder, isAscending, withinReach } from './order.ts';
import { type ProjectParts, type ProjectWith, partsShape } from './parts.ts';
import { finish } from './read.ts';
import { counting, gather, pageStatement, type Wanted, walk, walkAndGather } from './statements.ts';
import { afterSpellings, asksForTopics } from './topic-spellings.ts';
import { firstWay, near, noteGathered, otherWay, type Way } from './ways.ts';

const statements = new CompiledStatements();

/** Lists these parts of the projects that match the filter and that the caller can see, newest first by default. */
export const listProjects = <const Parts extends ProjectParts>(
  ctx: Context,
  given: ProjectFilter,
  parts: Parts,
): List<ProjectWith<Parts>> => {
  const list = listBy(ctx, given, parts);
  if (!asksForTopics(given)) return list;
  const spelt = afterSpellings(ctx, given, list, (filter) => listBy(ctx, filter, parts));
  return {
    rows: async (window) => (await spelt()).rows(window),
    count: async (atMost) => (await spelt()).count(atMost),
    cursorOf: list.cursorOf,
  };
};

/** The list without regard to topics that are being renamed. */
export const listBy = <const Parts extends ProjectParts>(
  ctx: Context,
  given: ProjectFilter,
  parts: Parts,
): List<ProjectWith<Parts>> => {
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
    return runCompiled<RawProject>(ctx, statement, { ...values, ...windowValues(window) });
  };

  return {
    rows: (window) =>
      unlessBadCursor(window, async () => {
        const way = firstWay(ctx, list, filter, window);
        let rows = way === 'walk' ? await run('walk', window) : [];
        if (way === 'gather' || (other !== null && rows.length < window.limit)) {
          rows = await run('gather', window);
          total = rows[0]?.total ?? null;
          noteGathered(ctx, list, filter, window, total);
        }
        seen = ctx.db === ctx.services.db ? (rows[0]?.seen ?? null) : null;
        return finish(ctx, rows, wanted);
      }),
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
