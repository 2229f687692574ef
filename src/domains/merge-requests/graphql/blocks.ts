import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { addBlock, type Blocking, blockingByIds, removeBlock } from '../blocking/blocks.ts';
import { MergeRequestRef } from '../graphql.ts';
import { mergeRequestsByIds } from '../queries.ts';
import { findNamed, named } from './named.ts';

const loadBlocking = loader(blockingByIds);
const loadMergeRequest = loader(mergeRequestsByIds);

const BlockingMergeRequests = builder.objectRef<Blocking>('BlockingMergeRequests').implement({
  description: 'The merge requests that have to be merged first.',
  fields: (t) => ({
    totalCount: t.exposeInt('total', { nullable: false }),
    hiddenCount: t.int({
      nullable: false,
      description: 'Those that the caller cannot see.',
      resolve: ({ total, visible_ids }) => total - visible_ids.length,
    }),
    visibleMergeRequests: t.field({
      type: [MergeRequestRef],
      nullable: { list: false, items: false },
      resolve: async ({ visible_ids }, _args, ctx) => {
        const found = await Promise.all(visible_ids.map((id) => loadMergeRequest(ctx, id)));
        return found.filter((row) => row !== null);
      },
    }),
  }),
});

builder.objectField(MergeRequestRef, 'blockingMergeRequests', (t) =>
  t.field({
    type: BlockingMergeRequests,
    nullable: false,
    resolve: async ({ id }, _args, ctx) => (await loadBlocking(ctx, id)) ?? { visible_ids: [], total: 0 },
  }),
);

const input = (t: Parameters<typeof named>[0]) => ({
  ...named(t),
  blockingMergeRequestId: t.field({ type: 'MergeRequestID', required: true }),
});

mutationField('mergeRequestBlockCreate', {
  description: 'Lets a merge request be merged only after another one.',
  input,
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, { blockingMergeRequestId, ...one }) => {
    const { project, row } = await findNamed(ctx, one);
    await addBlock(ctx, project, row, blockingMergeRequestId);
    return { mergeRequest: row };
  },
});

mutationField('mergeRequestBlockDestroy', {
  description: 'Lets a merge request no longer wait for another one.',
  input,
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, { blockingMergeRequestId, ...one }) => {
    const { project, row } = await findNamed(ctx, one);
    await removeBlock(ctx, project, row, { blocking_id: blockingMergeRequestId });
    return { mergeRequest: row };
  },
});
