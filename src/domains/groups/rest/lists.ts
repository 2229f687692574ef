import { ROLES, VISIBILITIES } from '#domains/access/model.ts';
import {
  customAttributesFilter,
  withCustomAttributes,
  withCustomAttributesFlag,
} from '#domains/custom-attributes/rest.ts';
import type { Context } from '#platform/context.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import type { EncodedJson } from '#rest/encoded-json.ts';
import type { Input } from '#rest/input.ts';
import { boolean, commaList, date, idOrPath, integer, oneOf, oneOfNumbers, text } from '#rest/params.ts';
import { listRoute } from '#rest/route.ts';
import { GROUP_ORDERS, type GroupFilter, listGroups } from '../listing.ts';
import { type GroupRow, getGroup } from '../queries.ts';
import { type GroupRecord, groupRecord, toEncodedGroups, toGroups } from '../record.ts';

const commonInput = {
  skip_groups: commaList(integer(), { max: 1_000 }).optional(),
  search: text({ max: 255 }).optional(),
  order_by: oneOf(GROUP_ORDERS).default('name'),
  sort: oneOf(['asc', 'desc']).default('asc'),
  with_custom_attributes: withCustomAttributesFlag,
  custom_attributes: customAttributesFilter.optional(),
  owned: boolean().optional(),
  min_access_level: oneOfNumbers(ROLES).optional(),
  visibility: oneOf(VISIBILITIES).optional(),
  repository_storage: text({ max: 255 }).optional(),
  marked_for_deletion_on: date().optional(),
};
const ownInput = {
  ...commonInput,
  all_available: boolean()
    .optional()
    .describe(
      'Also lists groups that the caller does not belong to. Defaults to true for administrators and to false for others. `owned` and `min_access_level` take precedence.',
    ),
  statistics: boolean().optional().describe('Administrators only: ignored for other callers.'),
};

const toFilter = (input: Input<typeof commonInput>): GroupFilter => ({
  skipIds: input.skip_groups,
  search: input.search,
  orderBy: input.order_by,
  sort: input.sort,
  owned: input.owned,
  minAccessLevel: input.min_access_level,
  visibility: input.visibility,
  repositoryStorage: input.repository_storage,
  markedForDeletionOn: input.marked_for_deletion_on,
  customAttributes: input.custom_attributes,
});

type CommonInput = Input<typeof commonInput> & { readonly statistics?: boolean | undefined };

/** Reads a page of the groups that match the caller's filters and those of the list itself. */
const groupPage = async (ctx: Context, input: CommonInput, page: PageRequest, ofList: GroupFilter) => {
  const found = await readPage(listGroups(ctx, { ...toFilter(input), ...ofList }), page);
  return { ...found, items: await groupRecords(ctx, found.items, input) };
};

/** Records with parts for administrators only are built anew for each request. */
const groupRecords = async (
  ctx: Context,
  groups: readonly GroupRow[],
  input: CommonInput,
): Promise<readonly (GroupRecord | EncodedJson<GroupRecord>)[]> =>
  ctx.actor.isAdmin && (input.statistics || input.with_custom_attributes)
    ? withCustomAttributes(ctx, 'groups', await toGroups(ctx, groups, input), input.with_custom_attributes)
    : toEncodedGroups(ctx, groups);

export const listRoutes = [
  listRoute({
    path: '/groups',
    tag: 'Groups',
    summary: 'List groups',
    auth: 'optional',
    paging: { keyset: { name: 'text', path: 'text', id: 'integer' } },
    item: groupRecord,
    input: { ...ownInput, top_level_only: boolean().optional() },
    run: (ctx, input, page) =>
      groupPage(ctx, input, page, { allAvailable: input.all_available, topLevelOnly: input.top_level_only }),
  }),
  listRoute({
    path: '/groups/:id/subgroups',
    tag: 'Groups',
    summary: 'List the groups directly below a group',
    auth: 'optional',
    paging: 'offset',
    item: groupRecord,
    input: { id: idOrPath(), ...ownInput },
    run: async (ctx, { id, ...input }, page) => {
      const { id: parentId } = await getGroup(ctx, id);
      return groupPage(ctx, input, page, { allAvailable: input.all_available, parentId, searchPaths: true });
    },
  }),
  listRoute({
    path: '/groups/:id/descendant_groups',
    tag: 'Groups',
    summary: 'List all groups below a group',
    auth: 'optional',
    paging: 'offset',
    item: groupRecord,
    input: { id: idOrPath(), ...ownInput },
    run: async (ctx, { id, ...input }, page) => {
      const { id: ancestorId } = await getGroup(ctx, id);
      return groupPage(ctx, input, page, { allAvailable: input.all_available, ancestorId, searchPaths: true });
    },
  }),
  listRoute({
    path: '/groups/:id/groups/shared',
    tag: 'Groups',
    summary: 'List the groups shared with a group',
    description:
      'Takes the filters of `GET /groups`; the specification names only `search`, `order_by`, `sort`, `visibility` and `with_custom_attributes`. All shared groups that the caller can see are listed, without statistics: `all_available` and `statistics` change nothing.',
    auth: 'optional',
    paging: 'offset',
    item: groupRecord,
    input: { id: idOrPath(), ...commonInput },
    run: async (ctx, { id, ...input }, page) => {
      const { id: sharedWithId } = await getGroup(ctx, id);
      return groupPage(ctx, input, page, { allAvailable: true, sharedWithId });
    },
  }),
];
