import { ROLES, VISIBILITIES } from '#domains/access/model.ts';
import { customAttributesFilter, withCustomAttributesFlag } from '#domains/custom-attributes/rest.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import { findUser, findUserByUsername } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { listOfRows } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, commaList, date, dateTime, idOrPath, integer, oneOf, oneOfNumbers, text } from '#rest/params.ts';
import { listRoute } from '#rest/route.ts';
import { type DetailPart, getProject, type ProjectFilter, personalNamespaceId } from '../queries.ts';
import { anyProjectRecord } from '../record.ts';
import { isAnonymous, projectPage } from './page.ts';

const tag = 'Projects';

const sort = oneOf(['asc', 'desc']).default('desc');
const ORDERS = ['id', 'name', 'path', 'created_at', 'updated_at', 'last_activity_at'] as const;

const commonFilters = {
  archived: boolean().optional(),
  membership: boolean().optional(),
  min_access_level: oneOfNumbers(ROLES).optional(),
  owned: boolean().optional(),
  search: text({ max: 1_000 }).optional(),
  starred: boolean().optional(),
  custom_attributes: customAttributesFilter.optional(),
  with_custom_attributes: withCustomAttributesFlag,
  visibility: oneOf(VISIBILITIES).optional(),
  with_issues_enabled: boolean().optional(),
  with_merge_requests_enabled: boolean().optional(),
  with_programming_language: text({ max: 255 })
    .optional()
    .describe(
      'The exact name of a language (case-insensitive), in the default branch of code that the caller can read.',
    ),
  simple: boolean().optional(),
  sort,
};
const dated = {
  id_after: integer().optional(),
  id_before: integer().optional(),
  updated_after: dateTime().optional(),
  updated_before: dateTime().optional(),
};

const NO_CHECKSUMS = 'Only projects that failed their checksum. Always empty, as no copies exist to compare.';

const keysetById = { keyset: { id: 'integer' }, continueBy: 'id', shallowOffset: true } as const;
/** The projects of the hub, of users and of groups. */
export const listRoutes = [
  listRoute({
    path: '/projects',
    tag,
    summary: 'List projects',
    description:
      'All projects that the caller can see. Anonymous callers get public projects in the simple form, and none if the filter is about the caller. Keyset pagination orders by `id` and is required beyond an offset of 50,000. Ordering by size, `include_*`, `repository_storage` and custom attributes only apply for administrators. For other callers they are ignored, and a size orders as `created_at`. `similarity` needs a `search`, and searches the projects that the caller belongs to. `updated_after` and `updated_before` only apply with `order_by=updated_at`.',
    auth: 'optional',
    paging: keysetById,
    input: {
      ...commonFilters,
      ...dated,
      imported: boolean().optional().describe('Only projects that the caller imported.'),
      include_hidden: boolean().optional().describe('Administrators only.'),
      include_pending_delete: boolean().optional().describe('Administrators only.'),
      last_activity_after: dateTime().optional(),
      last_activity_before: dateTime().optional(),
      marked_for_deletion_on: date().optional(),
      order_by: oneOf([
        ...ORDERS,
        'star_count',
        'similarity',
        'repository_size',
        'storage_size',
        'packages_size',
        'wiki_size',
      ]).optional(),
      repository_checksum_failed: boolean().optional().describe(NO_CHECKSUMS),
      wiki_checksum_failed: boolean().optional().describe(NO_CHECKSUMS),
      repository_storage: text({ max: 255 }).optional().describe('Administrators only.'),
      search_namespaces: boolean().default(false),
      statistics: boolean()
        .default(false)
        .describe('Adds sizes and counts to the projects where the caller is at least Reporter.'),
      topic: commaList(text({ max: 255 }))
        .optional()
        .describe('The project has all of these, case-insensitive.'),
      topic_id: integer().optional(),
    },
    item: anyProjectRecord,
    run: async (ctx, { topic, statistics, simple, with_custom_attributes, ...filter }, page) => {
      const { isAdmin } = ctx.actor;
      if (isAnonymous(ctx)) await limitAction(ctx, 'projects_api_rate_limit_unauthenticated');
      return projectPage(
        ctx,
        {
          ...filter,
          topics: topic,
          // Similarity compares with the projects that the caller belongs to.
          membership: filter.membership || (filter.order_by === 'similarity' && Boolean(filter.search)),
          include_hidden: isAdmin && filter.include_hidden,
          include_pending_delete: isAdmin && filter.include_pending_delete,
          repository_storage: isAdmin ? filter.repository_storage : undefined,
        },
        page,
        { simple, with_custom_attributes, extra: statistics ? ['statistics'] : [] },
      );
    },
  }),

  listRoute({
    path: '/users/:user_id/projects',
    tag,
    summary: "List a user's personal projects",
    description: 'Lists the projects in the personal namespace; none if the profile is private.',
    auth: 'optional',
    paging: keysetById,
    input: {
      ...commonFilters,
      ...dated,
      user_id: idOrPath(),
      order_by: oneOf(ORDERS).optional(),
      statistics: boolean()
        .default(false)
        .describe('Adds sizes and counts to the projects where the caller is at least Reporter.'),
    },
    item: anyProjectRecord,
    run: async (ctx, { user_id, statistics, simple, with_custom_attributes, ...filter }, page) => {
      const user = await findPerson(ctx, user_id);
      if (!user) throw notFound('User');
      const namespace_id = await personalNamespaceId(ctx, user.id);
      if (namespace_id === null)
        return readPage(
          listOfRows<never, number>([], () => 0),
          page,
        );
      const extra: DetailPart[] = ['owner', 'runners_token'];
      if (statistics) extra.push('statistics');
      return projectPage(ctx, { ...filter, namespace_id }, page, { simple, with_custom_attributes, extra });
    },
  }),

  listRoute({
    path: '/users/:user_id/starred_projects',
    tag,
    summary: 'List the projects a user has starred',
    auth: 'optional',
    paging: keysetById,
    input: { ...commonFilters, ...dated, user_id: idOrPath(), order_by: oneOf(ORDERS).optional() },
    item: anyProjectRecord,
    run: async (ctx, { user_id, simple, with_custom_attributes, ...filter }, page) => {
      const user = await findPerson(ctx, user_id);
      if (!user) throw notFound('User');
      return projectPage(ctx, { ...filter, starred_by: user.id }, page, { simple, with_custom_attributes });
    },
  }),

  listRoute({
    path: '/projects/:id/forks',
    tag,
    summary: 'List the forks of a project',
    description: 'Lists the direct forks that the caller can see.',
    auth: 'optional',
    paging: 'offset',
    input: {
      ...commonFilters,
      ...dated,
      id: idOrPath(),
      order_by: oneOf([...ORDERS, 'star_count']).optional(),
      last_activity_after: dateTime().optional(),
      last_activity_before: dateTime().optional(),
    },
    item: anyProjectRecord,
    run: async (ctx, { id, simple, with_custom_attributes, ...filter }, page) => {
      const { id: forked_from_id } = await getProject(ctx, id);
      return projectPage(ctx, { ...filter, forked_from_id }, page, { simple, with_custom_attributes });
    },
  }),

  listRoute({
    path: '/users/:user_id/contributed_projects',
    tag,
    summary: 'List the projects a user has contributed to',
    description:
      'Contributions within the last year: pushes, issues, merge requests and comments. None if the profile is private.',
    auth: 'optional',
    paging: keysetById,
    input: {
      user_id: idOrPath(),
      id_after: integer().optional(),
      id_before: integer().optional(),
      order_by: oneOf(ORDERS).optional(),
      sort,
      simple: boolean().optional(),
      with_custom_attributes: withCustomAttributesFlag,
    },
    item: anyProjectRecord,
    run: async (ctx, { user_id, simple, with_custom_attributes, ...filter }, page) => {
      const user = await findPerson(ctx, user_id);
      if (!user) throw notFound('User');
      return projectPage(ctx, { ...filter, contributed_by: user.id }, page, { simple, with_custom_attributes });
    },
  }),

  listRoute({
    path: '/groups/:id/projects',
    tag,
    summary: 'List the projects of a group',
    auth: 'optional',
    paging: 'offset',
    input: {
      ...commonFilters,
      id: idOrPath(),
      order_by: oneOf([...ORDERS, 'star_count', 'similarity']).optional(),
      topic: commaList(text({ max: 255 })).optional(),
      with_shared: boolean().default(true),
      include_subgroups: boolean().default(false),
      with_security_reports: boolean()
        .optional()
        .describe(
          'Only projects with security scan reports. Always empty, as pipelines do not produce such reports yet.',
        ),
    },
    item: anyProjectRecord,
    run: async (ctx, { id, topic, simple, with_custom_attributes, ...filter }, page) => {
      const group = await getGroup(ctx, id);
      const wanted = { ...similarityOrName(filter), topics: topic, namespace_id: group.id };
      return projectPage(ctx, wanted, page, { simple, with_custom_attributes });
    },
  }),

  listRoute({
    path: '/groups/:id/projects/shared',
    tag,
    summary: 'List the projects shared with a group',
    auth: 'optional',
    paging: 'offset',
    input: { ...commonFilters, id: idOrPath(), order_by: oneOf([...ORDERS, 'star_count']).optional() },
    item: anyProjectRecord,
    run: async (ctx, { id, simple, with_custom_attributes, ...filter }, page) => {
      const group = await getGroup(ctx, id);
      const wanted = { ...filter, namespace_id: group.id, with_shared: 'only' as const };
      return projectPage(ctx, wanted, page, { simple, with_custom_attributes });
    },
  }),
];

/** Without a search, similarity lists by name (specification 3 §4.1). */
const similarityOrName = <F extends ProjectFilter>(filter: F): F | (F & { order_by: 'name'; sort: 'asc' }) =>
  filter.order_by === 'similarity' && !filter.search ? { ...filter, order_by: 'name', sort: 'asc' } : filter;

const findPerson = (ctx: Context, id: IdOrPath) =>
  id.path === undefined ? findUser(ctx, id.id) : findUserByUsername(ctx, id.path);
