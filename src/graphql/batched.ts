import DataLoader from 'dataloader';
import type { FieldNode, GraphQLResolveInfo } from 'graphql';
import type { Context } from '#platform/context.ts';
import type { BatchedList } from '#platform/db/batched-list.ts';
import { type ConnectionArguments, connection, type PageWanted, pageOf, pageWanted, upperBound } from './connection.ts';
import { loadSlots, type TextFields, TextPage, textShapeOf } from './text-rows.ts';

interface Batch<Row> {
  readonly nodes: readonly FieldNode[];
  readonly list: BatchedList<Row>;
  readonly rows: DataLoader<number, readonly Row[]>;
  /** By how far they count. */
  readonly counts: (atMost: number) => DataLoader<number, number>;
  readonly texts: DataLoader<number, string>;
}

/**
 * Declares a connection field that reads its rows for all parents of a level at once:
 *
 *     const groupProjects = batchedConnection((ctx, args: ProjectArgs, info) => projectsBelow(ctx, toFilter(args)))
 *     resolve: (group, args, ctx, info) => groupProjects(group.id, args, ctx, info)
 *
 * `listFor` is called once for each use of the field in the document, because all parents there have the same
 * arguments. With `plain`, rows pass as text if a query selects only these fields of them (text-rows.ts).
 */
export const batchedConnection = <Row, Args extends ConnectionArguments>(
  listFor: (ctx: Context, args: Args, info: GraphQLResolveInfo) => BatchedList<Row>,
  plain: TextFields = {},
) => {
  const batches = new WeakMap<Context, Batch<Row>[]>();
  const batchOf = (ctx: Context, args: Args, info: GraphQLResolveInfo, page: PageWanted): Batch<Row> => {
    const known = batches.get(ctx) ?? [];
    if (known.length === 0) batches.set(ctx, known);
    const { fieldNodes } = info;
    const found = known.find(
      ({ nodes }) => nodes.length === fieldNodes.length && nodes.every((node, i) => node === fieldNodes[i]),
    );
    if (found) return found;
    const list = listFor(ctx, args, info);
    const { limit, backwards, after, before } = page;
    // No caching: a later mutation in the same request must be visible to the next read.
    const options = { cache: false } as const;
    const counters = new Map<number, DataLoader<number, number>>();
    const batch: Batch<Row> = {
      nodes: fieldNodes,
      list,
      rows: new DataLoader(async (ids) => {
        const rows = await list.rows([...new Set(ids)], { limit: limit + 1, backwards, after, before });
        return ids.map((id) => rows.get(id) ?? []);
      }, options),
      counts: (atMost) => {
        const loader =
          counters.get(atMost) ??
          new DataLoader(async (ids) => {
            const counts = await list.counts([...new Set(ids)], atMost);
            return ids.map((id) => counts.get(id) ?? 0);
          }, options);
        counters.set(atMost, loader);
        return loader;
      },
      texts: new DataLoader(async (ids) => {
        const shape = textShapeOf(info, plain);
        const texts =
          shape && (await list.texts?.([...new Set(ids)], { limit, backwards, after, before }, shape.columns));
        if (shape && texts) await loadSlots(ctx, plain, shape, texts.values());
        return ids.map((id) => texts?.get(id) ?? '');
      }, options),
    };
    known.push(batch);
    return batch;
  };
  return async (parentId: number, args: Args, ctx: Context, info: GraphQLResolveInfo) => {
    const shape = textShapeOf(info, plain);
    if (shape) {
      const page = pageWanted(args, info);
      const { list, texts } = batchOf(ctx, args, info, page);
      // Backwards pages come in reverse order.
      if (list.texts && !page.backwards)
        return new TextPage(await texts.load(parentId), shape, (field, id) => plain[field]?.load?.find(ctx, id));
    }
    return connection(args, info, async (page) => {
      const batch = batchOf(ctx, args, info, page);
      const fetched = page.wants.rows ? await batch.rows.load(parentId) : [];
      return pageOf(page, fetched, {
        cursorOf: (row) => batch.list.cursorOf(row),
        count: (atMost) => batch.counts(upperBound(atMost)).load(parentId),
      });
    });
  };
};

/** Wraps a list so that `read` runs on the rows of each page before they are resolved, for example `loader.ahead`. */
export const readingAhead = <Row>(
  list: BatchedList<Row>,
  read: (rows: readonly Row[]) => Promise<unknown>,
): BatchedList<Row> => ({
  ...list,
  rows: async (parentIds, window) => {
    const found = await list.rows(parentIds, window);
    await read([...found.values()].flat());
    return found;
  },
});
