import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import { readPage } from '#platform/paging.ts';
import { commaList, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { copyMembers } from '../copying.ts';
import { projectSource } from '../model.ts';
import { ALL, listMembers } from '../queries.ts';

/** The users of a project. */
export const peopleRoutes = [
  listRoute({
    path: '/projects/:id/users',
    tag: 'Projects',
    summary: 'List the users of a project',
    description: 'All members: of the project itself, of a group above it, or of an invited group.',
    paging: 'offset',
    input: {
      id: idOrPath(),
      search: text({ max: 255 }).optional(),
      skip_users: commaList(integer(), { max: 1_000 }).optional(),
    },
    item: userBasicRecord,
    run: async (ctx, { id, search, skip_users }, page) => {
      const source = projectSource(await getProject(ctx, id));
      const filter = { relations: ALL, query: search, skipUserIds: skip_users };
      const found = await readPage(listMembers(ctx, source, filter), page);
      const users = await userBasicsByIds(
        ctx,
        found.items.map(({ user_id }) => user_id),
      );
      return { ...found, items: found.items.flatMap(({ user_id }) => users.get(user_id) ?? []) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/import_project_members/:project_id',
    tag: 'Members',
    summary: 'Add the members of one project to another',
    description:
      "Adds the direct members of the source with their levels, limited to the caller's own. Existing members are left unchanged.",
    status: 200,
    input: { id: idOrPath(), project_id: idOrPath() },
    response: z.object({ status: z.literal('success') }),
    run: async (ctx, { id, project_id }) => {
      await copyMembers(ctx, await getProject(ctx, project_id), await getProject(ctx, id));
      return { status: 'success' as const };
    },
  }),
];
