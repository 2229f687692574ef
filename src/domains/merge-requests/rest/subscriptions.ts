import { subscribe } from '#domains/planning/subscriptions.ts';
import { type Route, route } from '#rest/route.ts';
import { mergeRequestRecord } from '../record.ts';
import { findMergeRequest, one, wholeRecord } from './one.ts';

export const subscriptionRoutes = [subscription(true), subscription(false)] satisfies readonly Route[];

function subscription(wanted: boolean) {
  return route({
    method: 'POST',
    path: `/projects/:id/merge_requests/:merge_request_iid/${wanted ? 'subscribe' : 'unsubscribe'}`,
    tag: 'Merge requests',
    summary: wanted ? 'Subscribe to a merge request' : 'Unsubscribe from a merge request',
    description: wanted ? '304 when the caller is subscribed already.' : '304 when the caller is not subscribed.',
    input: one,
    response: mergeRequestRecord,
    run: async (ctx, { id, merge_request_iid }, http) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      if (!(await subscribe(ctx, 'merge_request', row, wanted))) http.setStatus(304);
      return wholeRecord(ctx, project, row);
    },
  });
}
