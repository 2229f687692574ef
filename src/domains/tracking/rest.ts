import { mergeRequestListRecord, toMergeRequests } from '#domains/merge-requests/record.ts';
import { MAX_DURATION } from '#domains/planning/time-tracking.ts';
import { getProject } from '#domains/projects/queries.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { slicePage } from '#platform/paging.ts';
import { idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { participantIdsBelow, reviewersOf } from './people.ts';
import { reviewerRecord, timeStatsRecord, toReviewers } from './record.ts';
import { mergeRequestsByIssueIds } from './references.ts';
import { eventRoutes } from './rest/events.ts';
import { addSpentTime, resetSpentTime, setTimeEstimate, timeStatsOf } from './time.ts';
import { getTracked, type Tracked, type TrackedKind } from './tracked.ts';

const DURATION = 'Such as `1w 2d 3h30m`, with `mo`, `w`, `d`, `h`, `m`, `s`. A number alone is hours.';
const duration = text({ max: MAX_DURATION }).describe(DURATION);
const place = { id: idOrPath(), iid: integer({ min: 1, max: 2_147_483_647 }) };

/** The routes of issues and merge requests differ only in their place. */
const routesOf = (kind: TrackedKind, path: 'issues' | 'merge_requests', tag: string, what: string): Route[] => {
  const at = `/projects/:id/${path}/:iid` as const;
  const find = async (ctx: Context, { id, iid }: { readonly id: IdOrPath; readonly iid: number }): Promise<Tracked> =>
    getTracked(ctx, await getProject(ctx, id), kind, iid);
  const posts = { method: 'POST', tag, status: 200, input: place, response: timeStatsRecord } as const;
  return [
    listRoute({
      path: `${at}/participants`,
      tag,
      summary: `List the participants of ${what}`,
      description: 'Author, assignees, reviewers, and authors of comments that the caller can read.',
      auth: 'optional',
      paging: 'offset',
      input: place,
      item: userBasicRecord,
      run: async (ctx, input, page) => {
        const { row } = await find(ctx, input);
        const found = slicePage((await participantIdsBelow(ctx, kind, [row.id])).get(row.id) ?? [], page);
        const users = await userBasicsByIds(ctx, found.items);
        return { ...found, items: found.items.flatMap((each) => users.get(each) ?? []) };
      },
    }),
    route({
      method: 'GET',
      path: `${at}/time_stats`,
      tag,
      summary: `Get the estimate and the spent time of ${what}`,
      auth: 'optional',
      input: place,
      response: timeStatsRecord,
      run: async (ctx, input) => timeStatsOf(ctx, await find(ctx, input)),
    }),
    route({
      ...posts,
      path: `${at}/time_estimate`,
      summary: `Set the time estimate of ${what}`,
      input: { ...place, duration },
      run: async (ctx, input) => timeStatsOf(ctx, await setTimeEstimate(ctx, await find(ctx, input), input.duration)),
    }),
    route({
      ...posts,
      path: `${at}/reset_time_estimate`,
      summary: `Remove the time estimate of ${what}`,
      run: async (ctx, input) => timeStatsOf(ctx, await setTimeEstimate(ctx, await find(ctx, input), '0')),
    }),
    route({
      ...posts,
      path: `${at}/add_spent_time`,
      status: 201,
      summary: `Add spent time to ${what}`,
      description: 'A leading `-` subtracts.',
      input: { ...place, duration, summary: text({ max: 255 }).optional() },
      run: async (ctx, input) => timeStatsOf(ctx, await addSpentTime(ctx, await find(ctx, input), input, 'duration')),
    }),
    route({
      ...posts,
      path: `${at}/reset_spent_time`,
      summary: `Remove the spent time of ${what}`,
      run: async (ctx, input) => timeStatsOf(ctx, await resetSpentTime(ctx, await find(ctx, input))),
    }),
    ...eventRoutes(at, tag, what, find),
  ];
};

export const routes: readonly Route[] = [
  ...routesOf('issue', 'issues', 'Issues', 'an issue'),
  ...routesOf('merge_request', 'merge_requests', 'Merge requests', 'a merge request'),
  mergeRequestsOfIssue('closed_by', 'closing', 'List the merge requests that close an issue when they are merged'),
  mergeRequestsOfIssue('related_merge_requests', 'related', 'List the merge requests that mention an issue'),
  listRoute({
    path: '/projects/:id/merge_requests/:iid/reviewers',
    tag: 'Merge requests',
    summary: 'List the reviewers of a merge request',
    description: 'With the state of their review, such as `unreviewed`, `requested_changes` or `approved`.',
    auth: 'optional',
    paging: 'offset',
    input: place,
    item: reviewerRecord,
    run: async (ctx, { id, iid }, page) => {
      const { row } = await getTracked(ctx, await getProject(ctx, id), 'merge_request', iid);
      return slicePage(await toReviewers(ctx, await reviewersOf(ctx, row.id)), page);
    },
  }),
];

function mergeRequestsOfIssue(
  name: 'closed_by' | 'related_merge_requests',
  which: 'closing' | 'related',
  summary: string,
): Route {
  return listRoute({
    path: `/projects/:id/issues/:iid/${name}`,
    tag: 'Issues',
    summary,
    description: 'References in texts and commits are read shortly after they were written.',
    auth: 'optional',
    paging: 'offset',
    input: place,
    item: mergeRequestListRecord,
    run: async (ctx, { id, iid }, page) => {
      const project = await getProject(ctx, id);
      const { row } = await getTracked(ctx, project, 'issue', iid);
      const byIssue = await mergeRequestsByIssueIds(ctx, [row.id], which);
      const found = slicePage(byIssue.get(row.id) ?? [], page);
      return { ...found, items: await toMergeRequests(ctx, found.items, { place: project.full_path }) };
    },
  });
}
