import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import type { Input } from '#rest/input.ts';
import { boolean, hash, idOrPath, integer, list, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  getProtectedBranch,
  listProtectedBranches,
  type ProtectionInput,
  protectBranch,
  unprotectBranch,
  updateProtectedBranch,
} from '../protections/branches.ts';
import { protectedBranchRecord, toProtectedBranch } from '../record.ts';

const tag = 'Protected branches';

const id = idOrPath();

const grant = {
  access_level: integer().optional(),
  user_id: integer().optional(),
  group_id: integer().optional(),
};
const newGrants = list(hash(grant), { max: 100 }).optional();
/** `id` names an existing level to change or, with `_destroy`, to remove. */
const grants = list(hash({ ...grant, id: integer().optional(), _destroy: boolean().optional() }), {
  max: 100,
}).optional();

const commonInput = {
  push_access_level: integer().optional(),
  merge_access_level: integer().optional(),
  unprotect_access_level: integer().optional(),
  allow_force_push: boolean().optional(),
  code_owner_approval_required: boolean().optional(),
};
const creationInput = {
  ...commonInput,
  allowed_to_push: newGrants,
  allowed_to_merge: newGrants,
  allowed_to_unprotect: newGrants,
};
const changeInput = {
  ...commonInput,
  allowed_to_push: grants,
  allowed_to_merge: grants,
  allowed_to_unprotect: grants,
};

const toChanges = (input: Input<typeof changeInput>): ProtectionInput => {
  const read = (given: typeof input.allowed_to_push) =>
    given?.map(({ _destroy: destroy, ...rest }) => ({ ...rest, destroy }));
  return {
    ...input,
    allowed_to_push: read(input.allowed_to_push),
    allowed_to_merge: read(input.allowed_to_merge),
    allowed_to_unprotect: read(input.allowed_to_unprotect),
  };
};

export const protectedBranchRoutes = [
  listRoute({
    path: '/projects/:id/protected_branches',
    tag,
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
    tag,
    summary: 'Show a protected branch or wildcard',
    input: { id, name: text() },
    response: protectedBranchRecord,
    run: async (ctx, { id, name }) => toProtectedBranch(await getProtectedBranch(ctx, await getProject(ctx, id), name)),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/protected_branches',
    tag,
    summary: 'Protect a branch, or all branches that match a wildcard',
    input: { id, name: text(), ...creationInput },
    response: protectedBranchRecord,
    run: async (ctx, { id, name, ...input }) =>
      toProtectedBranch(await protectBranch(ctx, await getProject(ctx, id), name, input)),
  }),
  route({
    method: 'PATCH',
    path: '/projects/:id/protected_branches/:name',
    tag,
    summary: 'Change a protection',
    input: { id, name: text(), ...changeInput },
    response: protectedBranchRecord,
    run: async (ctx, { id, name, ...input }) =>
      toProtectedBranch(await updateProtectedBranch(ctx, await getProject(ctx, id), name, toChanges(input))),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/protected_branches/:name',
    tag,
    summary: 'Unprotect a branch or wildcard',
    refusals: MODIFIED,
    input: { id, name: text() },
    response: null,
    run: async (ctx, { id, name }, http) => {
      await unprotectBranch(ctx, await getProject(ctx, id), name, unmodifiedSince(http));
    },
  }),
];
