import { issueRecord, toIssues } from '#domains/issues/record.ts';
import { slicePage } from '#platform/paging.ts';
import { listRoute, type Route } from '#rest/route.ts';
import { issuesClosedBy, issuesRelatedTo } from '../references.ts';
import { findMergeRequest, one } from './one.ts';

const tag = 'Merge requests';

export const issueRoutes = [
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/closes_issues',
    tag,
    summary: 'List the issues that merging closes',
    description:
      'Issues named with a closing pattern (`Closes #1, group/project#2`) in the title, the description or the message of a commit. None if the target is not the default branch.',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: issueRecord,
    run: async (ctx, { id, merge_request_iid }, page) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const found = slicePage(await issuesClosedBy(ctx, project, row), page);
      return {
        ...found,
        items: await toIssues(
          ctx,
          found.items.map(({ issue }) => issue),
        ),
      };
    },
  }),
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/related_issues',
    tag,
    summary: 'List the issues that a merge request mentions',
    description: 'Issues mentioned in the title, the description, comments or the messages of commits.',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: issueRecord,
    run: async (ctx, { id, merge_request_iid }, page) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const found = slicePage(await issuesRelatedTo(ctx, project, row), page);
      return {
        ...found,
        items: await toIssues(
          ctx,
          found.items.map(({ issue }) => issue),
        ),
      };
    },
  }),
] satisfies readonly Route[];
