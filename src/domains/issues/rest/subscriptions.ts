import { subscribe } from '#domains/planning/subscriptions.ts';
import { getProject } from '#domains/projects/queries.ts';
import { idOrPath, integer } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { getIssue } from '../queries.ts';
import { issueRecord, toIssue } from '../record.ts';

const input = { id: idOrPath(), issue_iid: integer() };

export const issueSubscriptionRoutes = [subscription(true), subscription(false)] satisfies readonly Route[];

function subscription(wanted: boolean) {
  return route({
    method: 'POST',
    path: `/projects/:id/issues/:issue_iid/${wanted ? 'subscribe' : 'unsubscribe'}`,
    tag: 'Issues',
    summary: wanted ? 'Subscribe to an issue' : 'Unsubscribe from an issue',
    description: wanted ? '304 when the caller is subscribed already.' : '304 when the caller is not subscribed.',
    input,
    response: issueRecord,
    run: async (ctx, { id, issue_iid }, http) => {
      const project = await getProject(ctx, id);
      const issue = await getIssue(ctx, project, issue_iid);
      if (!(await subscribe(ctx, 'issue', issue, wanted))) http.setStatus(304);
      return toIssue(ctx, issue, { project });
    },
  });
}
