import { AccessLevelEnum, VisibilityLevelsEnum } from '#domains/access/graphql.ts';
import type { Visibility } from '#domains/access/model.ts';
import { CustomAttributeInput, wantedAttributes } from '#domains/custom-attributes/graphql.ts';
import { GroupRef, NamespaceRef } from '#domains/groups/graphql.ts';
import { UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, listConnection } from '#graphql/connection.ts';
import { selectedFields, selectedNodes } from '#graphql/lookahead.ts';
import { badRequest } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import { ProjectConnection, ProjectRef, projectParts } from '../graphql.ts';
import {
  findProjectWith,
  listProjects,
  listProjectsBelow,
  PROJECT_ORDERS,
  type ProjectFilter,
  type ProjectOrder,
} from '../queries.ts';

const ORDERS: ReadonlyMap<string, ProjectOrder> = new Map([
  ...PROJECT_ORDERS.map((each) => [each, each] as const),
  ['created', 'created_at'],
  ['updated', 'updated_at'],
  ['latest_activity', 'last_activity_at'],
  ['activity', 'last_activity_at'],
  ['stars', 'star_count'],
]);
const SORTS_TOLD = `One of ${PROJECT_ORDERS.join(', ')} with _asc or _desc, case-insensitive. Sizes only apply for administrators.`;
const NO_CHECKSUMS = 'Always empty, as no copies exist to compare.';
const LANGUAGE_TOLD = 'The exact name of a language (case-insensitive), in code that the caller can read.';

/**
 * Parses `name_asc`, `ID_DESC`, `similarity`, `latest_activity_desc`. @throws DomainError `bad_request` for an unknown
 * order
 */
const order = (sort: string | null | undefined): { order_by: ProjectOrder; sort: SortDirection } => {
  if (!sort) return { order_by: 'id', sort: 'desc' };
  const [, name = '', direction] = /^(.+?)(?:_(asc|desc))?$/.exec(sort.toLowerCase()) ?? [];
  const order_by = ORDERS.get(name);
  if (!order_by)
    throw badRequest(
      `sort does not have a valid value (allowed: ${PROJECT_ORDERS.join(', ')}, each with _asc or _desc)`,
    );
  return { order_by, sort: direction === 'asc' ? 'asc' : 'desc' };
};

builder.queryField('project', (t) =>
  t.field({
    type: ProjectRef,
    description: 'The project with this path (case-insensitive) or this id; null if the caller cannot see one.',
    args: { fullPath: t.arg.id(), id: t.arg({ type: 'ProjectID' }) },
    resolve: (_root, { fullPath, id }, ctx, info) => {
      if ((fullPath == null) === (id == null)) throw badRequest('either fullPath or id is required');
      const named = fullPath == null ? { id: id ?? 0 } : { path: fullPath };
      return findProjectWith(ctx, named, projectParts(selectedFields(info)));
    },
  }),
);

builder.queryField('projects', (t) =>
  t.connection(
    {
      type: ProjectRef,
      args: {
        membership: t.arg.boolean(),
        search: t.arg.string(),
        searchNamespaces: t.arg.boolean(),
        ids: t.arg({ type: ['ProjectID'] }),
        fullPaths: t.arg.stringList(),
        idAfter: t.arg({ type: 'ProjectID' }),
        idBefore: t.arg({ type: 'ProjectID' }),
        sort: t.arg.string({
          description: `Newest first by default. ${SORTS_TOLD}`,
        }),
        topics: t.arg.stringList({ description: 'The project has all of these, case-insensitive.' }),
        topicId: t.arg({ type: 'ProjectsTopicID' }),
        programmingLanguageName: t.arg.string({ description: LANGUAGE_TOLD }),
        visibilityLevel: t.arg({ type: VisibilityLevelsEnum }),
        minAccessLevel: t.arg({ type: AccessLevelEnum }),
        active: t.arg.boolean({
          description: 'True: only projects that are neither archived nor marked for deletion. False: only the others.',
        }),
        archived: t.arg.boolean({ description: 'True: only archived projects. False: only the others.' }),
        personal: t.arg.boolean({ description: "Only projects in the caller's own namespace." }),
        owned: t.arg.boolean(),
        starred: t.arg.boolean(),
        withIssuesEnabled: t.arg.boolean(),
        withMergeRequestsEnabled: t.arg.boolean(),
        aimedForDeletion: t.arg.boolean({
          description: 'True: only projects marked for deletion. False: only the others.',
        }),
        markedForDeletionOn: t.arg({ type: 'Date' }),
        includeHidden: t.arg.boolean({ description: 'Administrators only.' }),
        includePendingDelete: t.arg.boolean({ description: 'Administrators only.' }),
        repositoryStorage: t.arg.string({ description: 'Administrators only.' }),
        imported: t.arg.boolean({ description: 'Imported by the caller.' }),
        repositoryChecksumFailed: t.arg.boolean({ description: NO_CHECKSUMS }),
        wikiChecksumFailed: t.arg.boolean({ description: NO_CHECKSUMS }),
        lastActivityAfter: t.arg({ type: 'Time' }),
        lastActivityBefore: t.arg({ type: 'Time' }),
        updatedAfter: t.arg({ type: 'Time', description: 'Only applies with the order `updated_at`.' }),
        updatedBefore: t.arg({ type: 'Time', description: 'Only applies with the order `updated_at`.' }),
        customAttributes: t.arg({
          type: [CustomAttributeInput],
          description: 'Administrators only. The project has all of these attributes with these values.',
        }),
      },
      resolve: (_root, args, ctx, info) =>
        listConnection(
          args,
          info,
          listProjects(
            ctx,
            {
              ...order(args.sort),
              membership: args.membership,
              search: args.search,
              search_namespaces: args.searchNamespaces,
              ids: args.ids,
              full_paths: args.fullPaths,
              id_after: args.idAfter,
              id_before: args.idBefore,
              topics: args.topics,
              topic_id: args.topicId,
              with_programming_language: args.programmingLanguageName,
              visibility: args.visibilityLevel,
              min_access_level: args.minAccessLevel,
              active: args.active,
              archived: args.archived,
              personal: args.personal,
              owned: args.owned,
              starred: args.starred,
              with_issues_enabled: args.withIssuesEnabled,
              with_merge_requests_enabled: args.withMergeRequestsEnabled,
              marked_for_deletion: args.aimedForDeletion,
              marked_for_deletion_on: args.markedForDeletionOn,
              include_hidden: ctx.actor.isAdmin && args.includeHidden,
              include_pending_delete: ctx.actor.isAdmin && args.includePendingDelete,
              repository_storage: ctx.actor.isAdmin ? args.repositoryStorage : null,
              imported: args.imported,
              repository_checksum_failed: args.repositoryChecksumFailed,
              wiki_checksum_failed: args.wikiChecksumFailed,
              last_activity_after: args.lastActivityAfter,
              last_activity_before: args.lastActivityBefore,
              updated_after: args.updatedAfter,
              updated_before: args.updatedBefore,
              custom_attributes: wantedAttributes(args.customAttributes),
            },
            projectParts(selectedNodes(info)),
          ),
        ),
    },
    ProjectConnection,
  ),
);

const NamespaceProjectSort = builder.enumType('NamespaceProjectSort', {
  values: {
    ID_DESC: { value: 'id_desc' },
    ID_ASC: { value: 'id_asc' },
    NAME_ASC: { value: 'name_asc' },
    NAME_DESC: { value: 'name_desc' },
    PATH_ASC: { value: 'path_asc' },
    PATH_DESC: { value: 'path_desc' },
    ACTIVITY_DESC: { value: 'activity_desc' },
    ACTIVITY_ASC: { value: 'activity_asc' },
    CREATED_DESC: { value: 'created_desc' },
    CREATED_ASC: { value: 'created_asc' },
    UPDATED_DESC: { value: 'updated_desc' },
    UPDATED_ASC: { value: 'updated_asc' },
    STARS_DESC: { value: 'stars_desc' },
    STARS_ASC: { value: 'stars_asc' },
    SIMILARITY: { value: 'similarity' },
  } as const,
});

interface BelowArguments extends ConnectionArguments {
  readonly includeSubgroups?: boolean | null | undefined;
  readonly includeArchived?: boolean | null | undefined;
  readonly search?: string | null | undefined;
  readonly sort?: string | null | undefined;
  readonly ids?: readonly number[] | null | undefined;
  readonly withIssuesEnabled?: boolean | null | undefined;
  readonly withMergeRequestsEnabled?: boolean | null | undefined;
  readonly withShared?: boolean | null | undefined;
  readonly visibilityLevel?: Visibility | null | undefined;
  readonly minAccessLevel?: number | null | undefined;
  readonly topics?: readonly string[] | null | undefined;
  readonly owned?: boolean | null | undefined;
  readonly starred?: boolean | null | undefined;
  readonly programmingLanguageName?: string | null | undefined;
  readonly notAimedForDeletion?: boolean | null | undefined;
}

const filterBelow = (args: BelowArguments): ProjectFilter => ({
  ...order(args.sort),
  include_subgroups: args.includeSubgroups,
  with_shared: args.withShared,
  visibility: args.visibilityLevel,
  min_access_level: args.minAccessLevel,
  topics: args.topics,
  owned: args.owned,
  starred: args.starred,
  search: args.search,
  ids: args.ids,
  archived: args.includeArchived === false ? false : null,
  marked_for_deletion: args.notAimedForDeletion ? false : null,
  with_programming_language: args.programmingLanguageName,
  with_issues_enabled: args.withIssuesEnabled,
  with_merge_requests_enabled: args.withMergeRequestsEnabled,
});

/** The projects of groups and namespaces. Reads all parents of a level in one statement. */
const projectsBelow = batchedConnection((ctx, args: BelowArguments, info) =>
  listProjectsBelow(ctx, filterBelow(args), projectParts(selectedNodes(info))),
);
const projectsSharedWith = batchedConnection((ctx, args: BelowArguments, info) =>
  listProjectsBelow(ctx, { ...filterBelow(args), with_shared: 'only' }, projectParts(selectedNodes(info))),
);

for (const parent of [GroupRef, NamespaceRef]) {
  builder.objectField(parent, 'projects', (t) =>
    t.connection(
      {
        type: ProjectRef,
        nullable: false,
        args: {
          includeSubgroups: t.arg.boolean({ defaultValue: false }),
          includeArchived: t.arg.boolean({ defaultValue: true }),
          search: t.arg.string(),
          sort: t.arg({ type: NamespaceProjectSort, defaultValue: 'id_desc' }),
          ids: t.arg({ type: ['ProjectID'] }),
          withIssuesEnabled: t.arg.boolean(),
          withMergeRequestsEnabled: t.arg.boolean(),
          withShared: t.arg.boolean({ description: 'Also projects shared with the group.' }),
          visibilityLevel: t.arg({ type: VisibilityLevelsEnum }),
          minAccessLevel: t.arg({ type: AccessLevelEnum }),
          topics: t.arg.stringList(),
          programmingLanguageName: t.arg.string({ description: LANGUAGE_TOLD }),
          notAimedForDeletion: t.arg.boolean({ description: 'Excludes projects marked for deletion.' }),
          owned: t.arg.boolean(),
          starred: t.arg.boolean(),
        },
        resolve: (namespace, args, ctx, info) => projectsBelow(namespace.id, args, ctx, info),
      },
      ProjectConnection,
    ),
  );
}

builder.objectField(GroupRef, 'sharedProjects', (t) =>
  t.connection(
    {
      type: ProjectRef,
      nullable: false,
      description: 'Projects of other namespaces that are shared with the group.',
      args: {
        includeArchived: t.arg.boolean({ defaultValue: true }),
        search: t.arg.string(),
        sort: t.arg({ type: NamespaceProjectSort, defaultValue: 'id_desc' }),
        visibilityLevel: t.arg({ type: VisibilityLevelsEnum }),
        minAccessLevel: t.arg({ type: AccessLevelEnum }),
        starred: t.arg.boolean(),
      },
      resolve: (group, args, ctx, info) => projectsSharedWith(group.id, args, ctx, info),
    },
    ProjectConnection,
  ),
);

interface PersonArguments extends ConnectionArguments {
  readonly search?: string | null | undefined;
  readonly sort?: string | null | undefined;
  readonly membership?: boolean | null | undefined;
  readonly minAccessLevel?: number | null | undefined;
  readonly programmingLanguageName?: string | null | undefined;
}

/**
 * Builds a field for a user's starred or contributed projects that the caller can see. Empty if the profile is private.
 */
const projectsOfPerson = (
  name: 'starredProjects' | 'contributedProjects',
  description: string,
  by: 'starred_by' | 'contributed_by',
): void => {
  const projects = batchedConnection((ctx, args: PersonArguments, info) =>
    listProjectsBelow(
      ctx,
      {
        ...order(args.sort),
        search: args.search,
        membership: args.membership,
        min_access_level: args.minAccessLevel,
        with_programming_language: args.programmingLanguageName,
      },
      projectParts(selectedNodes(info)),
      by,
    ),
  );
  builder.interfaceField(UserRef, name, (t) =>
    t.connection(
      {
        type: ProjectRef,
        description,
        args: {
          search: t.arg.string(),
          sort: t.arg({ type: NamespaceProjectSort, defaultValue: 'id_desc' }),
          membership: t.arg.boolean({ description: 'Only projects that the caller is a member of.' }),
          minAccessLevel: t.arg({ type: AccessLevelEnum, description: "The caller's minimum role." }),
          programmingLanguageName: t.arg.string({ description: LANGUAGE_TOLD }),
        },
        resolve: (user, args, ctx, info) => projects(user.id, args, ctx, info),
      },
      ProjectConnection,
    ),
  );
};

projectsOfPerson('starredProjects', 'Projects that the user has starred.', 'starred_by');
projectsOfPerson(
  'contributedProjects',
  'Projects that the user has contributed to within the last year: pushes, issues, merge requests and comments.',
  'contributed_by',
);
