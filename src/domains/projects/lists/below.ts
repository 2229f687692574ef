import { sql } from 'kysely';
import { actorShape, actorTemplate } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import {
  type BatchedList,
  batchedCounts,
  batchedRows,
  groupedByParent,
  type OfParent,
  PARENT,
} from '#platform/db/batched-list.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import { type List, unlessBadCursor } from '#platform/db/list.ts';
import { windowShape, windowValues } from '#platform/db/windows.ts';
import type { RawProject } from './assemble.ts';
import type { ParentFilter } from './conditions.ts';
import { filterShape, filterValues, type ProjectFilter, withoutBlanks } from './filter.ts';
import { listBy } from './list.ts';
import { cursorOf, effectiveOrder, isAscending, withinReach } from './order.ts';
import { type ProjectParts, type ProjectWith, partsShape } from './parts.ts';
import { finish } from './read.ts';
import { gather, gatheredStatement, matching, pageStatement, type Wanted } from './statements.ts';
import { afterSpellings, asksForTopics } from './topic-spellings.ts';

const statements = new CompiledStatements();

/**
 * The same list for many parents at once: the projects of each group on a page, or with `by`, the forks of each project
 * or the stars of each user. The filter's own value for `by` is ignored.
 */
export const listProjectsBelow = <const Parts extends ProjectParts>(
  ctx: Context,
  filter: ProjectFilter,
  parts: Parts,
  by: ParentFilter = 'namespace_id',
): BatchedList<ProjectWith<Parts>> => {
  const list = listBelow(ctx, filter, parts, by);
  if (!asksForTopics(filter)) return list;
  const spelt = afterSpellings(ctx, filter, list, (other) => listBelow(ctx, other, parts, by));
  return {
    rows: async (parents, window) => (await spelt()).rows(parents, window),
    counts: async (parents, atMost) => (await spelt()).counts(parents, atMost),
    cursorOf: list.cursorOf,
  };
};

const listBelow = <const Parts extends ProjectParts>(
  ctx: Context,
  filter: ProjectFilter,
  parts: Parts,
  by: ParentFilter,
): BatchedList<ProjectWith<Parts>> => {
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
  let alone: { readonly parent: number; readonly list: List<ProjectWith<Parts>> } | null = null;
  const listOf = (parent: number) => {
    if (alone?.parent !== parent) alone = { parent, list: listBy(ctx, { ...filter, [by]: parent }, parts) };
    return alone.list;
  };
  return {
    rows: async (parents, window) => {
      const [parent] = parents;
      if (parent !== undefined && parents.length === 1) return new Map([[parent, await listOf(parent).rows(window)]]);
      const statement = statements.get(ctx, `below|${shape}|${partsShape(parts)}|${windowShape(window)}`, () =>
        batchedRows(
          slot('parents'),
          parts.includes('columns')
            ? pageStatement(asked(), parts, window, gather(asked(), window))
            : gatheredStatement(asked(), parts, window),
        ),
      );
      const rows = await unlessBadCursor(window, () =>
        runCompiled<RawProject & OfParent>(ctx, statement, { ...values, parents, ...windowValues(window) }),
      );
      return groupedByParent(await finish(ctx, rows, new Set(parts)));
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
