import type { z } from 'zod';
import { getGroup } from '#domains/groups/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import { getCommit } from '#domains/repositories/commits.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { type Page, type PageRequest, readPage } from '#platform/paging.ts';
import { boolean, commaList, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route } from '#rest/route.ts';
import { listMergeRequests, listVisibleMergeRequests } from '../lists.ts';
import { recheckMergeStatuses } from '../merging/rechecking.ts';
import type { MergeRequestRow } from '../queries.ts';
import { anyMergeRequestRecord, toMergeRequests, toSimpleMergeRequest } from '../record.ts';
import { filterOf, filters, filterRules as rules, scope } from './filters.ts';

const tag = 'Merge requests';

export const listRoutes = [
  listRoute({
    path: '/merge_requests',
    tag,
    summary: 'List merge requests',
    description: "The caller's own merge requests by default; see `scope`. Anonymous callers need `scope=all`.",
    auth: 'optional',
    paging: 'offset',
    input: { ...filters, scope: scope.default('created_by_me') },
    rules,
    item: anyMergeRequestRecord,
    run: (ctx, input, page) => mergeRequestPage(ctx, listVisibleMergeRequests(ctx, filterOf(input)), page, input, null),
  }),
  listRoute({
    path: '/groups/:id/merge_requests',
    tag,
    summary: 'List the merge requests below a group',
    auth: 'optional',
    paging: 'offset',
    input: { ...filters, id: idOrPath(), scope: scope.default('all'), non_archived: boolean().default(true) },
    rules,
    item: anyMergeRequestRecord,
    run: async (ctx, input, page) => {
      const group = await getGroup(ctx, input.id);
      const { non_archived } = input;
      const found = listVisibleMergeRequests(ctx, { ...filterOf(input), non_archived, group_id: group.id });
      return mergeRequestPage(ctx, found, page, input, null);
    },
  }),
  listRoute({
    path: '/projects/:id/merge_requests',
    tag,
    summary: 'List the merge requests of a project',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: { ...filters, id: idOrPath(), scope: scope.default('all'), iids: commaList(integer()).optional() },
    rules,
    item: anyMergeRequestRecord,
    run: async (ctx, input, page) => {
      const project = await getProject(ctx, input.id);
      const found = listMergeRequests(ctx, project, { ...filterOf(input), iids: input.iids });
      return mergeRequestPage(ctx, found, page, input, project.full_path);
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits/:sha/merge_requests',
    tag,
    summary: 'List the merge requests of a commit',
    description: 'Merge requests that contain the commit, or that resulted in it when merged.',
    auth: 'optional',
    paging: 'offset',
    input: { id: idOrPath(), sha: text({ max: 1_000 }), state: filters.state },
    item: anyMergeRequestRecord,
    run: async (ctx, { id, sha, state }, page) => {
      const project = await getProject(ctx, id);
      const { id: commit_sha } = await getCommit(ctx, project, sha);
      const found = listMergeRequests(ctx, project, { commit_sha, state });
      const options = { view: undefined, with_labels_details: false, with_merge_status_recheck: false };
      return mergeRequestPage(ctx, found, page, options, project.full_path);
    },
  }),
] satisfies readonly Route[];

const mergeRequestPage = async (
  ctx: Context,
  found: List<MergeRequestRow>,
  page: PageRequest,
  {
    view,
    with_labels_details,
    with_merge_status_recheck,
  }: {
    readonly view?: 'simple' | undefined;
    readonly with_labels_details: boolean;
    readonly with_merge_status_recheck: boolean;
  },
  place: string | null,
): Promise<Page<z.output<typeof anyMergeRequestRecord>>> => {
  const rows = await readPage(found, page);
  if (with_merge_status_recheck) await recheckMergeStatuses(ctx, rows.items);
  if (view === 'simple') return { ...rows, items: rows.items.map((row) => toSimpleMergeRequest(ctx, row)) };
  return { ...rows, items: await toMergeRequests(ctx, rows.items, { place, withLabelsDetails: with_labels_details }) };
};
