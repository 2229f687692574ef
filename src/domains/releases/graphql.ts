import { loadHtml } from '#domains/markdown/graphql.ts';
import { loadMilestone, MilestoneRef } from '#domains/milestones/graphql.ts';
import { JUDGED, loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { ROW } from '#domains/projects/queries.ts';
import { CommitRef } from '#domains/repositories/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { LINK_TYPES } from './attributes.ts';
import { directAssetUrl, isUpcoming, type LinkPlace, releaseCommits, releaseWebUrl, tagPath } from './model.ts';
import { getRelease, listReleasesBelow, type ReleaseLinkRow, type ReleaseRow, releasePartsByIds } from './queries.ts';

const loadParts = loader(releasePartsByIds);

export const ReleaseAssetLinkType = builder.enumType('ReleaseAssetLinkType', { values: upperCase(LINK_TYPES) });

export const ReleaseAssetLink = builder.objectRef<ReleaseLinkRow & LinkPlace>('ReleaseAssetLink').implement({
  description: 'A link of a release to an external file.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Releases::Link', id) }),
    name: t.exposeString('name'),
    url: t.exposeString('url'),
    directAssetPath: t.exposeString('filepath', {
      description: 'Its path below the release, such as `/binaries/linux`.',
    }),
    directAssetUrl: t.string({
      description: 'Its lasting URL: that of its path below the release, or its own.',
      resolve: (link, _args, ctx) => directAssetUrl(ctx, link, link),
    }),
    linkType: t.field({
      type: ReleaseAssetLinkType,
      resolve: ({ link_type }) => LINK_TYPES.find((each) => each === link_type) ?? 'other',
    }),
  }),
});

/** A release. Resolvers must have checked `read_release`. */
export const ReleaseRef = builder.objectRef<ReleaseRow>('Release').implement({
  description: 'A release: a tag with notes, links and milestones.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Release', id) }),
    name: t.string({ resolve: ({ name, tag }) => name ?? tag }),
    tagName: t.exposeString('tag'),
    tagPath: t.string({ resolve: tagPath }),
    description: t.exposeString('description'),
    descriptionHtml: t.string({
      resolve: ({ description, project_id }, _args, ctx) =>
        loadHtml(ctx, { text: description, home: { kind: 'project', id: project_id } }),
    }),
    createdAt: t.expose('created_at', { type: 'Time' }),
    releasedAt: t.expose('released_at', { type: 'Time' }),
    upcomingRelease: t.boolean({ resolve: (release, _args, ctx) => isUpcoming(ctx, release) }),
    webUrl: t.string({ nullable: false, resolve: (release, _args, ctx) => releaseWebUrl(ctx, release) }),
    author: t.field({
      type: UserRef,
      resolve: ({ author_id }, _args, ctx) => (author_id === null ? null : loadUser(ctx, author_id)),
    }),
    commit: t.field({
      type: CommitRef,
      extensions: { cost: 5 },
      resolve: async (release, _args, ctx) => {
        const project = await loadProject(ctx, release.project_id);
        if (!project || !can(ctx, project, 'read_code')) return null;
        const commit = (await releaseCommits(ctx, [release])).get(release.id);
        return commit ? { ...commit, project } : null;
      },
    }),
    milestones: t.field({
      type: [MilestoneRef],
      resolve: async (release, _args, ctx) => {
        const project = await loadProject(ctx, release.project_id);
        if (!project || !can(ctx, project, 'read_milestone')) return null;
        const ids = (await loadParts(ctx, release.id))?.milestone_ids ?? [];
        return (await Promise.all(ids.map((id) => loadMilestone(ctx, id)))).filter((each) => each !== null);
      },
    }),
    links: t.field({
      type: [ReleaseAssetLink],
      nullable: { list: false, items: false },
      resolve: async ({ id, project_id, tag }, _args, ctx) =>
        ((await loadParts(ctx, id))?.links ?? []).map((link) => ({ ...link, project_id, tag })),
    }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
  }),
});
const ReleaseConnection = builder.connectionObject(
  { type: ReleaseRef, name: 'ReleaseConnection' },
  { name: 'ReleaseEdge' },
);

const SORTS = {
  RELEASED_AT_DESC: { order_by: 'released_at', sort: 'desc' },
  RELEASED_AT_ASC: { order_by: 'released_at', sort: 'asc' },
  CREATED_DESC: { order_by: 'created_at', sort: 'desc' },
  CREATED_ASC: { order_by: 'created_at', sort: 'asc' },
} as const;
const ReleaseSort = builder.enumType('ReleaseSort', {
  values: [
    'RELEASED_AT_DESC',
    'RELEASED_AT_ASC',
    'CREATED_DESC',
    'CREATED_ASC',
  ] as const satisfies readonly (keyof typeof SORTS)[],
});

interface ReleaseArguments extends ConnectionArguments {
  readonly sort?: keyof typeof SORTS | null | undefined;
}
const projectReleases = batchedConnection((ctx, { sort }: ReleaseArguments) =>
  listReleasesBelow(ctx, SORTS[sort ?? 'RELEASED_AT_DESC']),
);

projectField('releases', JUDGED, (t) =>
  t.connection(
    {
      type: ReleaseRef,
      args: { sort: t.arg({ type: ReleaseSort, defaultValue: 'RELEASED_AT_DESC' }) },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_release') ? projectReleases(project.id, args, ctx, info) : null,
    },
    ReleaseConnection,
  ),
);

projectField('release', ROW, (t) =>
  t.field({
    type: ReleaseRef,
    args: { tagName: t.arg.string({ required: true }) },
    resolve: (project, { tagName }, ctx) =>
      can(ctx, project, 'read_release') ? orNull(getRelease(ctx, project, tagName)) : null,
  }),
);
