import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { createBranch, deleteBranch, scheduleMergedBranchesDeletion } from '../commands.ts';
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
      '`search` is part of the name, whatever its case; `^term` begins and `term$` ends it. `regex` is an RE2 expression found in the name. With both, both have to hold. `pagination=keyset` goes on after `page_token`, for the order of names alone.',
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
    description: 'HEAD says with 204 or 404 whether there is one.',
    auth: 'optional',
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
      'Those merged into the default branch, but for protected ones, those of open merge requests and those that hold what it holds itself. Carried out in the background.',
    input: { id },
    status: 202,
    response: acceptedRecord,
    run: async (ctx, { id }) => {
      await scheduleMergedBranchesDeletion(ctx, await getProject(ctx, id));
      return { message: '202 Accepted' };
    },
  }),
];
