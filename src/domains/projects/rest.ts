import { z } from 'zod';
import { ROLES, VISIBILITIES } from '#domains/access/model.ts';
import {
  customAttributeRoutes,
  customAttributesFilter,
  withCustomAttributes,
} from '#domains/custom-attributes/rest.ts';
import { findGroupByOldPath, getGroup } from '#domains/groups/queries.ts';
import { groupDetailShape, toGroupDetail } from '#domains/groups/record.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import { findUser, findUserByUsername } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { listOfRows } from '#platform/db/list.ts';
import { DomainError, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { MAX_PER_PAGE, offsetPage, type Page, type PageRequest, readPage } from '#platform/paging.ts';
import { RestError } from '#rest/errors.ts';
import { anyHash, boolean, commaList, date, dateTime, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { type Exchange, listRoute, type Route, route } from '#rest/route.ts';
import {
  attributeAliases,
  attributeNames,
  attributeSchemas,
  featureSwitches,
  readAttributes,
  schemaKind,
} from './attributes.ts';
import { createProject, deleteProject, namespaceOfUser, setArchived, setStar, updateProject } from './commands.ts';
import {
  findMovedProject,
  getProject,
  getProjectDetails,
  listProjectDetails,
  listProjects,
  type ProjectFilter,
  type ProjectRow,
  personalNamespaceId,
} from './queries.ts';
import { anyProjectRecord, projectRecord, toProjectRecord, toSimpleProject } from './record.ts';
import type { DetailPart } from './select.ts';

const tag = 'Projects';

/** The parameter of each setting, from its schema. Values are judged by `readAttributes`. */
function settingInputs(): Readonly<Record<SettingInput, z.ZodType<unknown>>>;
function settingInputs(): Readonly<Record<string, z.ZodType>> {
  const inputs: Record<string, z.ZodType> = { emails_disabled: boolean().optional() };
  for (const name of attributeNames) inputs[name] = inputOf(attributeSchemas[name]);
  for (const [alias, name] of Object.entries(attributeAliases)) inputs[alias] = inputOf(attributeSchemas[name]);
  for (const name of Object.keys(featureSwitches)) inputs[name] = boolean().optional();
  return inputs;
}
type SettingInput =
  | keyof typeof attributeSchemas
  | keyof typeof attributeAliases
  | keyof typeof featureSwitches
  | 'emails_disabled';

const inputOf = (schema: z.ZodType): z.ZodType => {
  const input = plainInput(schema);
  return schema instanceof z.ZodNullable ? input.nullish() : input.optional();
};

const plainInput = (schema: z.core.$ZodType): z.ZodType => {
  if (schema instanceof z.ZodNullable) return plainInput(schema.unwrap());
  if (schema instanceof z.ZodEnum) return oneOf(schema.options.map(String));
  switch (schemaKind(schema)) {
    case 'boolean':
      return boolean();
    case 'integer':
      return integer();
    case 'list':
      return commaList(text());
    case 'object':
      return anyHash();
    default:
      return text();
  }
};

const newProject = {
  ...settingInputs(),
  name: text({ max: 255 }).optional(),
  path: text({ max: 255 }).optional(),
  visibility: oneOf(VISIBILITIES).optional(),
  default_branch: text({ max: 255 }).optional(),
};
const creation = { ...newProject, initialize_with_readme: boolean().optional() };

const sort = oneOf(['asc', 'desc']).default('desc');
const minAccessLevel = integer()
  .refine((level) => ROLES.some((role) => role === level), 'does not have a valid value')
  .optional();
const ORDERS = ['id', 'name', 'path', 'created_at', 'updated_at', 'last_activity_at'] as const;

const commonFilters = {
  archived: boolean().optional(),
  membership: boolean().optional(),
  min_access_level: minAccessLevel,
  owned: boolean().optional(),
  search: text({ max: 1_000 }).optional(),
  starred: boolean().optional(),
  custom_attributes: customAttributesFilter.optional(),
  with_custom_attributes: boolean().default(false),
  visibility: oneOf(VISIBILITIES).optional(),
  with_issues_enabled: boolean().optional(),
  with_merge_requests_enabled: boolean().optional(),
  simple: boolean().optional(),
  sort,
};
const dated = {
  id_after: integer().optional(),
  id_before: integer().optional(),
  updated_after: dateTime().optional(),
  updated_before: dateTime().optional(),
};

const keysetById = { keyset: { id: 'integer' }, continueBy: 'id', shallowOffset: true } as const;
const accepted = z.object({ message: z.literal('202 Accepted') });

const groupWithProjects = z
  .object({
    ...groupDetailShape,
    projects: z.array(anyProjectRecord).optional(),
    shared_projects: z.array(anyProjectRecord).optional(),
  })
  .meta({ id: 'GroupWithProjects' });

export const routes = [
  listRoute({
    path: '/projects',
    tag,
    summary: 'List projects',
    description:
      'All projects the caller may see; anonymous callers get public ones in the simple form. Keyset pagination goes by `id`. Sizes as an order, `include_*` and `repository_storage` count for administrators alone.',
    auth: 'optional',
    paging: keysetById,
    input: {
      ...commonFilters,
      ...dated,
      imported: boolean().optional(),
      include_hidden: boolean().optional(),
      include_pending_delete: boolean().optional(),
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
      repository_storage: text({ max: 255 }).optional(),
      search_namespaces: boolean().default(false),
      statistics: boolean().default(false),
      topic: commaList(text({ max: 255 })).optional(),
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
          // Similarity compares with the projects the caller belongs to.
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
    description: 'Those in the personal namespace; none when the profile is private.',
    auth: 'optional',
    paging: keysetById,
    input: {
      ...commonFilters,
      ...dated,
      user_id: idOrPath(),
      order_by: oneOf(ORDERS).optional(),
      statistics: boolean().default(false),
    },
    item: anyProjectRecord,
    run: async (ctx, { user_id, statistics, simple, with_custom_attributes, ...filter }, page) => {
      const user = await findPerson(ctx, user_id);
      if (!user) throw notFound('User');
      const namespace_id = await personalNamespaceId(ctx, user.id);
      if (namespace_id === null)
        return readPage(
          listOfRows<never>([], () => 0),
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
    paging: 'offset',
    input: { ...commonFilters, user_id: idOrPath(), order_by: oneOf(ORDERS).optional() },
    item: anyProjectRecord,
    run: async (ctx, { user_id, simple, with_custom_attributes, ...filter }, page) => {
      const user = await findPerson(ctx, user_id);
      if (!user) throw notFound('User');
      return projectPage(ctx, { ...filter, starred_by: user.id }, page, { simple, with_custom_attributes });
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

  route({
    method: 'GET',
    path: '/groups/:id',
    tag: 'Groups',
    summary: 'Get a group',
    description: 'With its projects and those shared with it, at most 100 of each, unless `with_projects` is off.',
    auth: 'optional',
    input: {
      id: idOrPath(),
      with_projects: boolean().default(true),
      statistics: boolean().default(false),
      with_custom_attributes: boolean().default(false),
    },
    response: groupWithProjects,
    run: async (ctx, { id, with_projects, statistics, with_custom_attributes }) => {
      const group = await getGroup(ctx, id);
      const detail = await toGroupDetail(ctx, group, { statistics });
      const [record = detail] = await withCustomAttributes(ctx, 'groups', [detail], with_custom_attributes);
      if (!with_projects) return record;
      const [projects, shared_projects] = await Promise.all([
        projectRecordsOf(ctx, { namespace_id: group.id }),
        projectRecordsOf(ctx, { namespace_id: group.id, with_shared: 'only' }),
      ]);
      return { ...record, projects, shared_projects };
    },
  }),

  route({
    method: 'GET',
    path: '/projects/:id',
    tag,
    summary: 'Get a project',
    auth: 'optional',
    input: {
      id: idOrPath(),
      statistics: boolean().default(false),
      simple: boolean().default(false),
      with_custom_attributes: boolean().default(false),
    },
    response: anyProjectRecord,
    run: async (ctx, { id, statistics, simple, with_custom_attributes }) => {
      if (simple || isAnonymous(ctx)) return toSimpleProject(ctx, await getProject(ctx, id));
      const extra: DetailPart[] = ['owner', 'runners_token'];
      if (statistics) extra.push('statistics');
      const full = toProjectRecord(ctx, await getProjectDetails(ctx, id, extra));
      const [record = full] = await withCustomAttributes(ctx, 'projects', [full], with_custom_attributes);
      return record;
    },
  }),

  route({
    method: 'POST',
    path: '/projects',
    tag,
    summary: 'Create a project',
    input: { ...creation, namespace_id: idOrPath().optional() },
    response: projectRecord,
    run: async (ctx, { namespace_id, ...input }) => createdRecord(ctx, input, namespace_id),
  }),

  route({
    method: 'POST',
    path: '/projects/user/:user_id',
    tag,
    summary: 'Create a project for a user',
    admin: true,
    input: { ...creation, user_id: integer({ min: 1 }) },
    response: projectRecord,
    run: async (ctx, { user_id, ...input }) => createdRecord(ctx, input, await namespaceOfUser(ctx, user_id)),
  }),

  route({
    method: 'PUT',
    path: '/projects/:id',
    tag,
    summary: 'Change a project',
    input: { ...newProject, id: idOrPath() },
    response: projectRecord,
    run: async (ctx, { id, name, path, visibility, default_branch, ...settings }) => {
      const project = await getProject(ctx, id);
      const named = { name, path, visibility, default_branch: default_branch || undefined };
      await updateProject(ctx, project, { ...readAttributes(settings), ...named });
      return fullRecord(ctx, project);
    },
  }),

  route({
    method: 'DELETE',
    path: '/projects/:id',
    tag,
    summary: 'Delete a project',
    status: 202,
    input: { id: idOrPath() },
    response: accepted,
    run: async (ctx, { id }) => {
      await deleteProject(ctx, await getProject(ctx, id));
      return { message: '202 Accepted' as const };
    },
  }),

  ...archiving(),
  ...customAttributeRoutes('projects', idOrPath(), getProject),

  route({
    method: 'POST',
    path: '/projects/:id/star',
    tag,
    summary: 'Star a project',
    description: '304 when it is starred already.',
    input: { id: idOrPath() },
    response: projectRecord,
    run: (ctx, { id }, http) => starRecord(ctx, id, true, http),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/unstar',
    tag,
    summary: 'Take back the star of a project',
    description: '304 when it is not starred.',
    input: { id: idOrPath() },
    response: projectRecord,
    run: (ctx, { id }, http) => starRecord(ctx, id, false, http),
  }),
] satisfies readonly Route[];

function archiving() {
  return (['archive', 'unarchive'] as const).map((verb) =>
    route({
      method: 'POST',
      path: `/projects/:id/${verb}`,
      tag,
      summary: verb === 'archive' ? 'Archive a project' : 'Take a project out of the archive',
      input: { id: idOrPath() },
      response: projectRecord,
      run: async (ctx, { id }) => {
        const project = await setArchived(ctx, await getProject(ctx, id), verb === 'archive');
        return fullRecord(ctx, project);
      },
    }),
  );
}

/**
 * The route, with GET requests for the old path of a project or group sent on to its number (reference: conventions
 * §3). For every route below `/projects/:id` and `/groups/:id`.
 */
export const followingMoves = (declared: Route): Route => {
  const [, kind] = /^\/(projects|groups)\/:id(?:\/|$)/.exec(declared.path) ?? [];
  if (declared.method !== 'GET' || kind === undefined) return declared;
  const findMoved = kind === 'groups' ? findGroupByOldPath : findMovedProject;
  return {
    ...declared,
    handle: async (ctx, sent, http) => {
      try {
        return await declared.handle(ctx, sent, http);
      } catch (error) {
        if (!(error instanceof DomainError) || error.code !== 'not_found') throw error;
        const given = sent.id;
        if (typeof given !== 'string' || /^\d+$/.test(given)) throw error;
        const id = await findMoved(ctx, given);
        if (id === null) throw error;
        const Location = http.externalUrl + http.url.replace(/^(.*?\/(?:projects|groups)\/)[^/?]+/, `$1${id}`);
        throw new RestError(301, { message: `This resource has been moved permanently to ${Location}` }, { Location });
      }
    },
  };
};

/** At most 100 records, for the group record that carries its projects. */
const projectRecordsOf = async (ctx: Context, filter: ProjectFilter) => {
  const { items } = await projectPage(ctx, filter, offsetPage(1, MAX_PER_PAGE));
  return [...items];
};

const isAnonymous = ({ actor }: Context): boolean => actor.userId === null && !actor.isSystem;

const projectPage = async (
  ctx: Context,
  given: ProjectFilter,
  page: PageRequest,
  {
    simple = false,
    with_custom_attributes = false,
    extra = [],
  }: {
    readonly simple?: boolean | undefined;
    readonly with_custom_attributes?: boolean | undefined;
    readonly extra?: readonly DetailPart[];
  } = {},
): Promise<Page<z.output<typeof anyProjectRecord>>> => {
  // Only the id orders a keyset page.
  const filter: ProjectFilter = page.kind === 'keyset' ? { ...given, order_by: 'id' } : given;
  if (simple || isAnonymous(ctx)) {
    const found = await readPage(listProjects(ctx, filter), page);
    const simpleRecords = found.items.map((row) => toSimpleProject(ctx, row));
    return { ...found, items: await withCustomAttributes(ctx, 'projects', simpleRecords, with_custom_attributes) };
  }
  const found = await readPage(listProjectDetails(ctx, filter, extra), page);
  const records = found.items.map((row) => toProjectRecord(ctx, row));
  return { ...found, items: await withCustomAttributes(ctx, 'projects', records, with_custom_attributes) };
};

/** Without a search, similarity lists by name (specification 3 §4.1). */
const similarityOrName = <F extends ProjectFilter>(filter: F): F | (F & { order_by: 'name'; sort: 'asc' }) =>
  filter.order_by === 'similarity' && !filter.search ? { ...filter, order_by: 'name', sort: 'asc' } : filter;

interface CreationInput {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly visibility?: (typeof VISIBILITIES)[number] | undefined;
  readonly default_branch?: string | undefined;
  readonly initialize_with_readme?: boolean | undefined;
}

const createdRecord = async (ctx: Context, input: CreationInput, namespace: IdOrPath | undefined) => {
  const { name, path, visibility, default_branch, initialize_with_readme, ...settings } = input;
  const project = await createProject(ctx, {
    ...readAttributes(settings),
    name,
    path,
    visibility,
    default_branch: default_branch || undefined,
    initialize_with_readme,
    namespace,
  });
  return fullRecord(ctx, project);
};

const fullRecord = async (ctx: Context, { id }: Pick<ProjectRow, 'id'>) =>
  toProjectRecord(ctx, await getProjectDetails(ctx, { id }, ['owner', 'runners_token']));

const starRecord = async (ctx: Context, id: IdOrPath, starred: boolean, http: Exchange) => {
  const { project, changed } = await setStar(ctx, await getProject(ctx, id), starred);
  if (!changed) http.setStatus(304);
  return fullRecord(ctx, project);
};

const findPerson = (ctx: Context, id: IdOrPath) =>
  id.path === undefined ? findUser(ctx, id.id) : findUserByUsername(ctx, id.path);
