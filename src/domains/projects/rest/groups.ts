import { z } from 'zod';
import { ROLES } from '#domains/access/model.ts';
import { namespaceAvatarUrl, namespaceWebUrl } from '#domains/groups/model.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import { boolean, commaList, idOrPath, integer, oneOf, oneOfNumbers, text } from '#rest/params.ts';
import { listRoute } from '#rest/route.ts';
import { INVITATION_RELATIONS, listInvitedGroups, listProjectGroups, listTransferLocations } from '../groups.ts';
import { getProject } from '../queries.ts';

const tag = 'Projects';

const groupNameRecord = z
  .object({
    id: z.int(),
    web_url: z.string(),
    name: z.string(),
    avatar_url: z.string().nullable(),
    full_name: z.string(),
    full_path: z.string(),
  })
  .meta({ id: 'GroupName' });

const namesOf = async (ctx: Context, list: List<GroupRow>, page: PageRequest) => {
  const found = await readPage(list, page);
  const items = found.items.map((group) => ({
    id: group.id,
    web_url: namespaceWebUrl(ctx, group),
    name: group.name,
    avatar_url: namespaceAvatarUrl(ctx, group),
    full_name: group.full_name,
    full_path: group.full_path,
  }));
  return { ...found, items };
};

const search = text({ max: 255 }).optional();

/** The groups around a project. */
export const aroundRoutes = [
  listRoute({
    path: '/projects/:id/groups',
    tag,
    summary: 'List the groups of a project',
    description:
      'Lists the groups above it; with `with_shared`, also those that it is shared with. Groups that the caller cannot see are left out.',
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      search,
      skip_groups: commaList(integer(), { max: 1_000 }).optional(),
      with_shared: boolean().default(false),
      shared_min_access_level: oneOfNumbers(ROLES).optional(),
      shared_visible_only: boolean()
        .optional()
        .describe('Has no effect: shared groups that the caller cannot see are never listed.'),
    },
    item: groupNameRecord,
    run: async (ctx, { id, skip_groups, with_shared, shared_min_access_level, ...input }, page) => {
      const filter = {
        search: input.search,
        skipIds: skip_groups,
        withShared: with_shared,
        sharedMinLevel: shared_min_access_level,
      };
      return namesOf(ctx, listProjectGroups(ctx, await getProject(ctx, id), filter), page);
    },
  }),
  listRoute({
    path: '/projects/:id/invited_groups',
    tag,
    summary: 'List the groups invited to a project',
    description:
      '`direct`: invited to the project. `inherited`: invited to a group above it. `relation` defaults to both.',
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      search,
      min_access_level: oneOfNumbers(ROLES).optional(),
      relation: commaList(oneOf(INVITATION_RELATIONS)).optional(),
    },
    item: groupNameRecord,
    run: async (ctx, { id, min_access_level, relation, ...input }, page) => {
      const filter = { search: input.search, minLevel: min_access_level, relations: relation };
      return namesOf(ctx, listInvitedGroups(ctx, await getProject(ctx, id), filter), page);
    },
  }),
  listRoute({
    path: '/projects/:id/transfer_locations',
    tag,
    summary: 'List the groups that a project can be moved into',
    description: 'Groups in which the caller may create projects and that are at least as visible as the project.',
    paging: 'offset',
    input: { id: idOrPath(), search },
    item: groupNameRecord,
    run: async (ctx, { id, ...input }, page) =>
      namesOf(ctx, listTransferLocations(ctx, await getProject(ctx, id), { search: input.search }), page),
  }),
];
