import DataLoader from 'dataloader';
import type { FieldNode, GraphQLResolveInfo } from 'graphql';
import type { Context } from '#platform/context.ts';
import type { BatchedList } from '#platform/db/batched-list.ts';
import { type ConnectionArguments, connection, type PageWanted, pageOf } from './connection.ts';

/** The upper bound for `count`, as in `listConnection`. */
const MAX_COUNT = 100_000;

interface Batch<Row> {
  readonly nodes: readonly FieldNode[];
  readonly list: BatchedList<Row>;
  readonly rows: DataLoader<number, readonly Row[]>;
  readonly counts: DataLoader<number, number>;
}

/**
 * Declares a connection field that reads its rows for all parents of a level at once:
 *
 *     const groupProjects = batchedConnection((ctx, args: ProjectArgs, info) => projectsBelow(ctx, toFilter(args)))
 *     resolve: (group, args, ctx, info) => groupProjects(group.id, args, ctx, info)
 *
 * `listFor` is called once for each use of the field in the document, because all parents there have the same
 * arguments.
 */
export const batchedConnection = <Row, Args extends ConnectionArguments>(
  listFor: (ctx: Context, args: Args, info: GraphQLResolveInfo) => BatchedList<Row>,
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
    const batch: Batch<Row> = {
      nodes: fieldNodes,
      list,
      rows: new DataLoader(async (ids) => {
        const rows = await list.rows([...new Set(ids)], { limit: limit + 1, backwards, after, before });
        return ids.map((id) => rows.get(id) ?? []);
      }, options),
      counts: new DataLoader(async (ids) => {
        const counts = await list.counts([...new Set(ids)], MAX_COUNT);
        return ids.map((id) => counts.get(id) ?? 0);
      }, options),
    };
    known.push(batch);
    return batch;
  };
  return (parentId: number, args: Args, ctx: Context, info: GraphQLResolveInfo) =>
    connection(args, info, async (page) => {
      const batch = batchOf(ctx, args, info, page);
      const fetched = page.wants.rows ? await batch.rows.load(parentId) : [];
      return pageOf(page, fetched, {
        cursorOf: (row) => batch.list.cursorOf(row),
        count: () => batch.counts.load(parentId),
      });
    });
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
