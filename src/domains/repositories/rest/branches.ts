import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { createBranch, deleteBranch } from '../commands.ts';
import { scheduleMergedBranchesDeletion } from '../merged-branches.ts';
import { BRANCH_SORTS, completeBranches, getBranch, listBranches } from '../queries/branches.ts';
import { branchRecord, toBranch } from '../record.ts';

const tag = 'Branches';

const acceptedRecord = z.object({ message: z.string() }).meta({ id: 'Accepted' });
const id = idOrPath();
const branch = text();

export const branchRoutes = [
  listRoute({
    path: '/projects/:id/repository/branches',
    tag,
    summary: 'List branches',
    auth: 'optional',
    description:
      '`search` matches part of the name, case-insensitive; `^term` matches at the start and `term$` at the end. `regex` is an RE2 expression that matches part of the name. If both are given, both must match. `pagination=keyset` continues after `page_token`, only in the order of names.',
    jobTokens: true,
    input: {
      id,
      search: text({ max: 1_000 }).optional(),
      regex: text({ max: 1_000 }).optional(),
      sort: oneOf(BRANCH_SORTS).default('name_asc'),
    },
    item: branchRecord,
    paging: { keyset: 'name', sort: 'name_asc' },
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const page = await readPage(await listBranches(ctx, project, filter), wanted);
      const branches = await completeBranches(ctx, project, page.items);
      return { ...page, items: branches.map((each) => toBranch(ctx, project, each)) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/branches/:branch',
    tag,
    summary: 'Show a branch',
    description: 'HEAD returns 204 if the branch exists, else 404.',
    auth: 'optional',
    jobTokens: true,
    input: { id, branch },
    response: branchRecord,
    run: async (ctx, { id, branch }, http) => {
      if (http.method === 'HEAD') http.setStatus(204);
      const project = await getProject(ctx, id);
      return toBranch(ctx, project, await getBranch(ctx, project, branch));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/branches',
    tag,
    summary: 'Create a branch',
    input: { id, branch: text({ max: 1_000 }), ref: text({ max: 1_000 }) },
    response: branchRecord,
    run: async (ctx, { id, ...input }) => {
      const project = await getProject(ctx, id);
      return toBranch(ctx, project, await createBranch(ctx, project, input));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/repository/branches/:branch',
    tag,
    summary: 'Delete a branch',
    input: { id, branch },
    response: null,
    run: async (ctx, { id, branch }) => {
      await deleteBranch(ctx, await getProject(ctx, id), branch);
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/repository/merged_branches',
    tag,
    summary: 'Delete all merged branches',
    description:
      'Deletes branches that are merged into the default branch, in the background. Keeps protected branches, branches of open merge requests and branches at the same commit as the default branch.',
    input: { id },
    status: 202,
    response: acceptedRecord,
    run: async (ctx, { id }) => {
      await scheduleMergedBranchesDeletion(ctx, await getProject(ctx, id));
      return { message: '202 Accepted' };
    },
  }),
];
