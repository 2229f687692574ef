import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, dateTime, hash, type Input, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { createBranch, deleteBranch, scheduleMergedBranchesDeletion } from './commands.ts';
import {
  getProtectedBranch,
  listProtectedBranches,
  type ProtectionInput,
  protectBranch,
  unprotectBranch,
  updateProtectedBranch,
} from './protected-branches.ts';
import {
  completeBranches,
  completeTags,
  getBranch,
  getCommit,
  getTag,
  listBranches,
  listCommits,
  listTags,
} from './queries.ts';
import {
  branchRecord,
  commitRecord,
  protectedBranchRecord,
  tagRecord,
  toBranch,
  toCommit,
  toProtectedBranch,
  toTag,
} from './record.ts';

const BRANCHES = 'Branches';
const COMMITS = 'Commits';
const TAGS = 'Tags';
const PROTECTED = 'Protected branches';

const acceptedRecord = z.object({ message: z.string() }).meta({ id: 'Accepted' });
const id = idOrPath();
const branch = text();

const grants = list(
  hash({
    id: integer().optional(),
    access_level: integer().optional(),
    user_id: integer().optional(),
    group_id: integer().optional(),
    _destroy: boolean().optional(),
  }),
  { max: 100 },
).optional();

const protectionInput = {
  push_access_level: integer().optional(),
  merge_access_level: integer().optional(),
  unprotect_access_level: integer().optional(),
  allowed_to_push: grants,
  allowed_to_merge: grants,
  allowed_to_unprotect: grants,
  allow_force_push: boolean().optional(),
  code_owner_approval_required: boolean().optional(),
};

const toProtection = (input: Input<typeof protectionInput>): ProtectionInput => {
  const read = (given: typeof input.allowed_to_push) =>
    given?.map(({ _destroy: destroy, ...rest }) => ({ ...rest, destroy }));
  return {
    ...input,
    allowed_to_push: read(input.allowed_to_push),
    allowed_to_merge: read(input.allowed_to_merge),
    allowed_to_unprotect: read(input.allowed_to_unprotect),
  };
};

export const routes = [
  listRoute({
    path: '/projects/:id/repository/branches',
    tag: BRANCHES,
    summary: 'List branches',
    auth: 'optional',
    input: { id, search: text({ max: 1_000 }).optional(), regex: text({ max: 1_000 }).optional() },
    item: branchRecord,
    paging: 'offset',
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
    tag: BRANCHES,
    summary: 'Show a branch',
    auth: 'optional',
    input: { id, branch },
    response: branchRecord,
    run: async (ctx, { id, branch }) => {
      const project = await getProject(ctx, id);
      return toBranch(ctx, project, await getBranch(ctx, project, branch));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/branches',
    tag: BRANCHES,
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
    tag: BRANCHES,
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
    tag: BRANCHES,
    summary: 'Delete all merged branches',
    description: 'Those merged into the default branch, but for protected ones. Carried out in the background.',
    input: { id },
    status: 202,
    response: acceptedRecord,
    run: async (ctx, { id }) => {
      await scheduleMergedBranchesDeletion(ctx, await getProject(ctx, id));
      return { message: '202 Accepted' };
    },
  }),
  listRoute({
    path: '/projects/:id/protected_branches',
    tag: PROTECTED,
    summary: 'List protected branches',
    input: { id, search: text({ max: 255 }).optional() },
    item: protectedBranchRecord,
    paging: 'offset',
    run: async (ctx, { id, search }, wanted) => {
      const page = await readPage(await listProtectedBranches(ctx, await getProject(ctx, id), { search }), wanted);
      return { ...page, items: page.items.map(toProtectedBranch) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/protected_branches/:name',
    tag: PROTECTED,
    summary: 'Show a protected branch or wildcard',
    input: { id, name: text() },
    response: protectedBranchRecord,
    run: async (ctx, { id, name }) => toProtectedBranch(await getProtectedBranch(ctx, await getProject(ctx, id), name)),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/protected_branches',
    tag: PROTECTED,
    summary: 'Protect a branch, or those that match a wildcard',
    input: { id, name: text(), ...protectionInput },
    response: protectedBranchRecord,
    run: async (ctx, { id, name, ...input }) =>
      toProtectedBranch(await protectBranch(ctx, await getProject(ctx, id), name, toProtection(input))),
  }),
  route({
    method: 'PATCH',
    path: '/projects/:id/protected_branches/:name',
    tag: PROTECTED,
    summary: 'Change a protection',
    input: { id, name: text(), ...protectionInput },
    response: protectedBranchRecord,
    run: async (ctx, { id, name, ...input }) =>
      toProtectedBranch(await updateProtectedBranch(ctx, await getProject(ctx, id), name, toProtection(input))),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/protected_branches/:name',
    tag: PROTECTED,
    summary: 'Unprotect a branch or wildcard',
    input: { id, name: text() },
    response: null,
    run: async (ctx, { id, name }) => {
      await unprotectBranch(ctx, await getProject(ctx, id), name);
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits',
    tag: COMMITS,
    summary: 'List commits',
    description: 'Newest first; they are not counted.',
    auth: 'optional',
    input: {
      id,
      ref_name: text({ max: 1_000 }).optional(),
      since: dateTime().optional(),
      until: dateTime().optional(),
      path: text({ max: 4_096 }).optional(),
      author: text({ max: 255 }).optional(),
      first_parent: boolean().optional(),
    },
    item: commitRecord,
    paging: 'offset',
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const { limit } = wanted;
      const offset = wanted.kind === 'offset' ? wanted.offset : 0;
      const commits = await listCommits(ctx, project, filter, { limit: limit + 1, offset });
      const items = commits.slice(0, limit).map((each) => toCommit(ctx, project, each));
      return { items, total: null, hasNext: commits.length > limit };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha',
    tag: COMMITS,
    summary: 'Show a commit, by its id or a branch or tag',
    auth: 'optional',
    input: { id, sha: text({ max: 1_000 }) },
    response: commitRecord,
    run: async (ctx, { id, sha }) => {
      const project = await getProject(ctx, id);
      return toCommit(ctx, project, await getCommit(ctx, project, sha));
    },
  }),
  listRoute({
    path: '/projects/:id/repository/tags',
    tag: TAGS,
    summary: 'List tags',
    auth: 'optional',
    input: {
      id,
      search: text({ max: 1_000 }).optional(),
      order_by: oneOf(['name', 'updated']).default('updated'),
      sort: oneOf(['asc', 'desc']).default('desc'),
    },
    item: tagRecord,
    paging: 'offset',
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const page = await readPage(await listTags(ctx, project, filter), wanted);
      const tags = await completeTags(ctx, project, page.items);
      return { ...page, items: tags.map((each) => toTag(ctx, project, each)) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/tags/:tag_name',
    tag: TAGS,
    summary: 'Show a tag',
    auth: 'optional',
    input: { id, tag_name: text({ max: 1_000 }) },
    response: tagRecord,
    run: async (ctx, { id, tag_name }) => {
      const project = await getProject(ctx, id);
      return toTag(ctx, project, await getTag(ctx, project, tag_name));
    },
  }),
];
