import { getMilestoneAt } from '#domains/milestones/queries.ts';
import type { ContainerKind } from '#domains/planning/container.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath, integer, oneOf } from '#rest/params.ts';
import { listRoute, type Route } from '#rest/route.ts';
import { listVisibleMergeRequests } from '../lists.ts';
import { MERGE_REQUEST_STATES } from '../model.ts';
import { mergeRequestListRecord, toMergeRequests } from '../record.ts';

export const milestoneRoutes = [
  mergeRequestsOf('group', '/groups/:id'),
  mergeRequestsOf('project', '/projects/:id'),
] satisfies readonly Route[];

function mergeRequestsOf(kind: ContainerKind, path: '/groups/:id' | '/projects/:id') {
  return listRoute({
    path: `${path}/milestones/:milestone_id/merge_requests`,
    tag: 'Merge requests',
    summary: `List the merge requests of a milestone of a ${kind}`,
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      milestone_id: integer(),
      state: oneOf([...MERGE_REQUEST_STATES, 'all']).default('all'),
    },
    item: mergeRequestListRecord,
    run: async (ctx, { id, milestone_id, state }, page) => {
      const { milestone } = await getMilestoneAt(ctx, kind, id, milestone_id);
      const found = await readPage(listVisibleMergeRequests(ctx, { milestone_id: milestone.id, state }), page);
      return { ...found, items: await toMergeRequests(ctx, found.items) };
    },
  });
}
