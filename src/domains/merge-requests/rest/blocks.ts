import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { readPage } from '#platform/paging.ts';
import { only } from '#platform/values/only.ts';
import { integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { addBlock, type Block, listBlocks, removeBlock } from '../blocking/blocks.ts';
import { mergeRequestsByIds } from '../queries.ts';
import { mergeRequestListRecord, toMergeRequests } from '../record.ts';
import { findMergeRequest, one } from './one.ts';

const tag = 'Merge requests';
const at = '/projects/:id/merge_requests/:merge_request_iid';

const blockRecord = z
  .object({
    id: z.int(),
    blocking_merge_request: mergeRequestListRecord.nullable(),
    blocked_merge_request: mergeRequestListRecord.nullable(),
    project_id: z.int(),
  })
  .meta({ id: 'MergeRequestBlock' });

export const blockRoutes = [
  blocks('blocks', 'blocked', 'List what blocks a merge request'),
  blocks('blockees', 'blocking', 'List what a merge request blocks'),
  route({
    method: 'POST',
    path: `${at}/blocks`,
    tag,
    summary: 'Let a merge request wait for another one',
    description:
      'It can be merged only once `blocking_merge_request_id` (an `id`, not an `iid`), which may be of another project, is merged.',
    refusals: { 409: 'It waits for that merge request already.' },
    input: { ...one, blocking_merge_request_id: integer({ min: 1 }) },
    response: blockRecord,
    run: async (ctx, { id, merge_request_iid, blocking_merge_request_id }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      return only(await toBlocks(ctx, project, [await addBlock(ctx, project, row, blocking_merge_request_id)]));
    },
  }),
  route({
    method: 'DELETE',
    path: `${at}/blocks/:block_id`,
    tag,
    summary: 'Let a merge request no longer wait for another one',
    input: { ...one, block_id: integer() },
    response: null,
    run: async (ctx, { id, merge_request_iid, block_id }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      await removeBlock(ctx, project, row, { id: block_id });
    },
  }),
] satisfies readonly Route[];

function blocks(name: 'blocks' | 'blockees', side: 'blocked' | 'blocking', summary: string) {
  return listRoute({
    path: `${at}/${name}`,
    tag,
    summary,
    description: 'Without merge requests that the caller cannot see.',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: blockRecord,
    run: async (ctx, { id, merge_request_iid }, wanted) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const page = await readPage(listBlocks(ctx, row, side), wanted);
      return { ...page, items: await toBlocks(ctx, project, page.items) };
    },
  });
}

const toBlocks = async (
  ctx: Context,
  project: ProjectRow,
  found: readonly Block[],
): Promise<z.output<typeof blockRecord>[]> => {
  const ids = [...new Set(found.flatMap(({ blocked_id, blocking_id }) => [blocked_id, blocking_id]))];
  const rows = await mergeRequestsByIds(ctx, ids);
  const records = await toMergeRequests(ctx, [...rows.values()], { place: project.full_path });
  const recordOf = (id: number) => records.find((record) => record.id === id) ?? null;
  return found.map(({ id, blocked_id, blocking_id }) => ({
    id,
    blocking_merge_request: recordOf(blocking_id),
    blocked_merge_request: recordOf(blocked_id),
    project_id: project.id,
  }));
};
