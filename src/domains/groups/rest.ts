import { z } from 'zod';
import { FEATURE_LEVELS, VISIBILITIES } from '#domains/access/model.ts';
import {
  customAttributeRoutes,
  customAttributesFilter,
  withCustomAttributes,
} from '#domains/custom-attributes/rest.ts';
import type { Context } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { anyHash, boolean, commaList, date, type Input, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import type { GroupAttributes } from './attributes.ts';
import { createGroup, deleteGroup, transferGroup, updateGroup } from './commands.ts';
import { GROUP_ORDERS, type GroupFilter, listGroups } from './listing.ts';
import {
  PROJECT_CREATION_LEVELS,
  protectionOfLevel,
  SHARED_RUNNERS_SETTINGS,
  SUBGROUP_CREATION_LEVELS,
} from './model.ts';
import { type GroupRow, getGroup, getNamespace } from './queries.ts';
import { groupDetailRecord, groupRecord, namespaceRecord, toGroupDetail, toGroups, toNamespaces } from './record.ts';
import { shareGroup, unshareGroup } from './shares.ts';
import { findNamespaceNamed, listNamespaces } from './summaries.ts';

const accepted = { message: '202 Accepted' };
const acceptedRecord = z.object({ message: z.string() }).meta({ id: 'Accepted' });

const listInput = {
  skip_groups: commaList(integer(), { max: 1_000 }).optional(),
  all_available: boolean().optional(),
  search: text({ max: 255 }).optional(),
  order_by: oneOf(GROUP_ORDERS).default('name'),
  sort: oneOf(['asc', 'desc']).default('asc'),
  statistics: boolean().optional(),
  with_custom_attributes: boolean().optional(),
  custom_attributes: customAttributesFilter.optional(),
  owned: boolean().optional(),
  min_access_level: integer({ min: 0, max: 60 }).optional(),
  visibility: oneOf(VISIBILITIES).optional(),
  top_level_only: boolean().optional(),
  repository_storage: text({ max: 255 }).optional(),
  marked_for_deletion_on: date().optional(),
};

const toFilter = (input: Input<typeof listInput>): GroupFilter => ({
  skipIds: input.skip_groups,
  allAvailable: input.all_available,
  search: input.search,
  orderBy: input.order_by,
  sort: input.sort,
  owned: input.owned,
  minAccessLevel: input.min_access_level,
  visibility: input.visibility,
  topLevelOnly: input.top_level_only,
  repositoryStorage: input.repository_storage,
  markedForDeletionOn: input.marked_for_deletion_on,
  customAttributes: input.custom_attributes,
});

const groupRecords = async (ctx: Context, groups: readonly GroupRow[], input: Input<typeof listInput>) =>
  withCustomAttributes(ctx, 'groups', await toGroups(ctx, groups, input), input.with_custom_attributes);

const attributes = {
  description: text().nullish(),
  visibility: oneOf(VISIBILITIES).optional(),
  share_with_group_lock: boolean().optional(),
  require_two_factor_authentication: boolean().optional(),
  two_factor_grace_period: integer({ min: 0 }).optional(),
  project_creation_level: oneOf(PROJECT_CREATION_LEVELS).optional(),
  subgroup_creation_level: oneOf(SUBGROUP_CREATION_LEVELS).optional(),
  auto_devops_enabled: boolean().nullish(),
  emails_disabled: boolean().optional(),
  emails_enabled: boolean().optional(),
  mentions_disabled: boolean().nullish(),
  lfs_enabled: boolean().optional(),
  request_access_enabled: boolean().optional(),
  default_branch: text().nullish(),
  default_branch_protection: integer({ min: 0, max: 4 }).optional(),
  default_branch_protection_defaults: anyHash().optional(),
  wiki_access_level: oneOf(FEATURE_LEVELS).optional(),
  assistant_features_enabled: boolean().optional(),
  lock_assistant_features_enabled: boolean().optional(),
  duo_features_enabled: boolean().optional(),
  lock_duo_features_enabled: boolean().optional(),
  math_rendering_limits_enabled: boolean().optional(),
  lock_math_rendering_limits_enabled: boolean().optional(),
};

/** Those that upstream takes on update alone. */
const updatable = {
  name: text().optional(),
  path: text().optional(),
  file_template_project_id: integer({ min: 1 }).nullish(),
  ip_restriction_ranges: text().nullish(),
  shared_runners_setting: oneOf(SHARED_RUNNERS_SETTINGS).optional(),
  service_access_tokens_expiration_enforced: boolean().optional(),
};

/** Parameters as attributes: the older names, and those that tools send, under the proper ones. */
const toAttributes = (input: Input<typeof attributes>): GroupAttributes => {
  const {
    emails_disabled,
    default_branch_protection,
    default_branch_protection_defaults: defaults,
    duo_features_enabled,
    lock_duo_features_enabled,
    ...rest
  } = input;
  const byLevel = default_branch_protection === undefined ? null : protectionOfLevel(default_branch_protection);
  const protection = defaults ?? byLevel ?? undefined;
  return {
    ...rest,
    assistant_features_enabled: rest.assistant_features_enabled ?? duo_features_enabled,
    lock_assistant_features_enabled: rest.lock_assistant_features_enabled ?? lock_duo_features_enabled,
    emails_enabled: rest.emails_enabled ?? (emails_disabled === undefined ? undefined : !emails_disabled),
    default_branch_protection_defaults: protection && toProtection(protection),
  };
};

const level = z.object({ access_level: integer() });
const levelList = z.preprocess((value) => (Array.isArray(value) ? value : [value]), z.array(level));
/** Forms send the hash as text: read as leniently as other parameters, and then checked by the domain. */
const protectionHash = z.object({
  allowed_to_push: levelList.optional(),
  allow_force_push: boolean().optional(),
  allowed_to_merge: levelList.optional(),
  developer_can_initial_push: boolean().optional(),
  code_owner_approval_required: boolean().optional(),
});

export const routes = [
  ...customAttributeRoutes('groups', idOrPath(), getGroup),
  listRoute({
    path: '/groups',
    tag: 'Groups',
    summary: 'List groups',
    auth: 'optional',
    paging: { keyset: { name: 'text', path: 'text', id: 'integer' } },
    item: groupRecord,
    input: listInput,
    run: async (ctx, input, page) => {
      const found = await readPage(listGroups(ctx, toFilter(input)), page);
      return { ...found, items: await groupRecords(ctx, found.items, input) };
    },
  }),
  listRoute({
    path: '/groups/:id/subgroups',
    tag: 'Groups',
    summary: 'List the groups directly below a group',
    auth: 'optional',
    paging: 'offset',
    item: groupRecord,
    input: { id: idOrPath(), ...listInput },
    run: async (ctx, { id, ...input }, page) => {
      const group = await getGroup(ctx, id);
      const filter = { ...toFilter(input), parentId: group.id, searchPaths: true };
      const found = await readPage(listGroups(ctx, filter), page);
      return { ...found, items: await groupRecords(ctx, found.items, input) };
    },
  }),
  listRoute({
    path: '/groups/:id/descendant_groups',
    tag: 'Groups',
    summary: 'List all groups below a group',
    auth: 'optional',
    paging: 'offset',
    item: groupRecord,
    input: { id: idOrPath(), ...listInput },
    run: async (ctx, { id, ...input }, page) => {
      const group = await getGroup(ctx, id);
      const filter = { ...toFilter(input), ancestorId: group.id, searchPaths: true };
      const found = await readPage(listGroups(ctx, filter), page);
      return { ...found, items: await groupRecords(ctx, found.items, input) };
    },
  }),
  listRoute({
    path: '/groups/:id/groups/shared',
    tag: 'Groups',
    summary: 'List the groups that are shared with a group',
    auth: 'optional',
    paging: 'offset',
    item: groupRecord,
    input: { id: idOrPath(), ...listInput },
    run: async (ctx, { id, ...input }, page) => {
      const group = await getGroup(ctx, id);
      const filter = { ...toFilter(input), sharedWithId: group.id, allAvailable: true };
      const found = await readPage(listGroups(ctx, filter), page);
      return { ...found, items: await groupRecords(ctx, found.items, { ...input, statistics: false }) };
    },
  }),
  route({
    method: 'POST',
    path: '/groups',
    tag: 'Groups',
    summary: 'Create a group',
    input: { name: text(), path: text(), parent_id: integer({ min: 1 }).nullish(), ...attributes },
    response: groupDetailRecord,
    run: async (ctx, { name, path, parent_id, ...rest }) => {
      const parent = parent_id ? { id: parent_id } : null;
      return toGroupDetail(ctx, await createGroup(ctx, { ...toAttributes(rest), name, path, parent }));
    },
  }),
  route({
    method: 'PUT',
    path: '/groups/:id',
    tag: 'Groups',
    summary: 'Update a group',
    input: { id: idOrPath(), ...attributes, ...updatable },
    response: groupDetailRecord,
    run: async (ctx, { id, ...input }) => {
      const { name, path, file_template_project_id, ip_restriction_ranges, shared_runners_setting, ...rest } = input;
      const { service_access_tokens_expiration_enforced, ...common } = rest;
      const changes = {
        ...toAttributes(common),
        name,
        path,
        file_template_project_id,
        ip_restriction_ranges,
        shared_runners_setting,
        service_access_tokens_expiration_enforced,
      };
      return toGroupDetail(ctx, await updateGroup(ctx, id, changes));
    },
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id',
    tag: 'Groups',
    summary: 'Delete a group with everything in it',
    status: 202,
    input: { id: idOrPath() },
    response: acceptedRecord,
    run: async (ctx, { id }) => {
      await deleteGroup(ctx, id);
      return accepted;
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/transfer',
    tag: 'Groups',
    summary: 'Move a group under another, or to the top',
    input: { id: idOrPath(), group_id: integer({ min: 1 }).nullish() },
    response: groupDetailRecord,
    run: async (ctx, { id, group_id }) =>
      toGroupDetail(ctx, await transferGroup(ctx, id, group_id ? { id: group_id } : null)),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/share',
    tag: 'Groups',
    summary: 'Share a group with another group',
    status: 200,
    input: { id: idOrPath(), group_id: integer({ min: 1 }), group_access: integer(), expires_at: date().nullish() },
    response: groupDetailRecord,
    run: async (ctx, { id, group_id, ...share }) =>
      toGroupDetail(ctx, await shareGroup(ctx, id, { id: group_id }, share)),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/share/:group_id',
    tag: 'Groups',
    summary: 'Stop sharing a group with another group',
    input: { id: idOrPath(), group_id: integer({ min: 1 }) },
    response: null,
    run: (ctx, { id, group_id }) => unshareGroup(ctx, id, { id: group_id }),
  }),
  listRoute({
    path: '/namespaces',
    tag: 'Namespaces',
    summary: 'List the namespaces of the caller',
    paging: 'offset',
    item: namespaceRecord,
    input: {
      search: text({ max: 255 }).optional(),
      owned_only: boolean().optional(),
      top_level_only: boolean().optional(),
    },
    run: async (ctx, { search, owned_only, top_level_only }, page) => {
      const filter = { search, ownedOnly: owned_only, topLevelOnly: top_level_only };
      const found = await readPage(listNamespaces(ctx, filter), page);
      return { ...found, items: await toNamespaces(ctx, found.items) };
    },
  }),
  route({
    method: 'GET',
    path: '/namespaces/:id',
    tag: 'Namespaces',
    summary: 'Get a namespace',
    input: { id: idOrPath() },
    response: namespaceRecord,
    run: async (ctx, { id }) => {
      const [record] = await toNamespaces(ctx, [await getNamespace(ctx, id)]);
      if (!record) throw notFound('Namespace');
      return record;
    },
  }),
  route({
    method: 'GET',
    path: '/namespaces/:path/exists',
    tag: 'Namespaces',
    summary: 'Tell whether a namespace has the path, and suggest a free one',
    input: { path: text({ max: 255 }), parent_id: integer({ min: 1 }).optional() },
    response: z.object({ exists: z.boolean(), suggests: z.array(z.string()) }).meta({ id: 'NamespaceExists' }),
    run: async (ctx, { path, parent_id }) => {
      const { exists, suggests } = await findNamespaceNamed(ctx, path, parent_id ?? null);
      return { exists, suggests: [...suggests] };
    },
  }),
];

function toProtection(given: object): GroupAttributes['default_branch_protection_defaults'] {
  const parsed = protectionHash.safeParse(given);
  if (!parsed.success) throw invalid({ default_branch_protection_defaults: ['is invalid'] });
  return parsed.data;
}
