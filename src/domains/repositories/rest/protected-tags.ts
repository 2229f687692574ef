import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { hash, idOrPath, integer, list, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { getProtectedTag, listProtectedTags, protectTag, unprotectTag } from '../protections/tags.ts';
import { protectedTagRecord, toProtectedTag } from '../record.ts';

const tag = 'Protected tags';

const id = idOrPath();
const name = text();

export const protectedTagRoutes = [
  listRoute({
    path: '/projects/:id/protected_tags',
    tag,
    summary: 'List protected tags',
    input: { id },
    item: protectedTagRecord,
    paging: 'offset',
    run: async (ctx, { id }, wanted) => {
      const page = await readPage(await listProtectedTags(ctx, await getProject(ctx, id)), wanted);
      return { ...page, items: page.items.map(toProtectedTag) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/protected_tags/:name',
    tag,
    summary: 'Show a protected tag or wildcard',
    input: { id, name },
    response: protectedTagRecord,
    run: async (ctx, { id, name }) => toProtectedTag(await getProtectedTag(ctx, await getProject(ctx, id), name)),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/protected_tags',
    tag,
    summary: 'Protect a tag, or all tags that match a wildcard',
    description:
      'The given levels may create the tag, by default Maintainers. Nobody can change or delete it. Access levels are 0, 30, 40 and 60.',
    input: {
      id,
      name,
      create_access_level: integer().optional(),
      allowed_to_create: list(
        hash({
          access_level: integer().optional(),
          user_id: integer().optional(),
          group_id: integer().optional(),
        }),
        { max: 100 },
      ).optional(),
    },
    response: protectedTagRecord,
    run: async (ctx, { id, name, ...input }) =>
      toProtectedTag(await protectTag(ctx, await getProject(ctx, id), name, input)),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/protected_tags/:name',
    tag,
    summary: 'Unprotect a tag or wildcard',
    input: { id, name },
    response: null,
    run: async (ctx, { id, name }) => {
      await unprotectTag(ctx, await getProject(ctx, id), name);
    },
  }),
];
