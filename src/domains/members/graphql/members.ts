import { AccessLevelEnum, AccessLevelRef } from '#domains/access/graphql.ts';
import { GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { userView, viewIncludes } from '#domains/users/policy.ts';
import { usersByIds } from '#domains/users/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import type { MemberSource } from '../model.ts';
import { listMembersBelow, listMembershipsOf, type MemberRelation, type MemberRow } from '../queries.ts';

const loadRow = loader(usersByIds);

/** The fields of both kinds of members. */
const memberFields = (t: PothosSchemaTypes.ObjectFieldBuilder<Types, MemberRow>, model: string) => ({
  id: t.id({
    nullable: false,
    // The owner of a personal namespace is a member of its projects without a membership.
    resolve: (member) => (member.id === null ? gid('User', member.user_id) : gid(model, member.id)),
  }),
  user: t.field({
    type: UserRef,
    nullable: true,
    resolve: (member, _args, ctx) => loadUser(ctx, member.user_id),
  }),
  accessLevel: t.field({ type: AccessLevelRef, nullable: true, resolve: (member) => member.access_level }),
  createdBy: t.field({
    type: UserRef,
    nullable: true,
    resolve: (member, _args, ctx) => (member.created_by_id === null ? null : loadUser(ctx, member.created_by_id)),
  }),
  createdAt: t.expose('created_at', { type: 'Time', nullable: true }),
  updatedAt: t.expose('updated_at', { type: 'Time', nullable: true }),
  expiresAt: t.expose('expires_at', { type: 'Date', nullable: true }),
});

export const GroupMember = builder.objectRef<MemberRow>('GroupMember').implement({
  description: 'A membership of a group.',
  fields: (t) => ({
    ...memberFields(t, 'GroupMember'),
    group: t.field({
      type: GroupRef,
      nullable: true,
      description: 'The group of the membership. It is another group if the membership is inherited or by invitation.',
      resolve: (member, _args, ctx) => (member.namespace_id === null ? null : loadGroup(ctx, member.namespace_id)),
    }),
  }),
});

export const ProjectMember = builder.objectRef<MemberRow>('ProjectMember').implement({
  description: 'A member of a project, through the project itself or through a group.',
  fields: (t) => ({
    ...memberFields(t, 'ProjectMember'),
    project: t.field({
      type: ProjectRef,
      nullable: true,
      description: 'Null if the membership belongs to a group.',
      resolve: (member, _args, ctx) => (member.project_id === null ? null : loadProject(ctx, member.project_id)),
    }),
    group: t.field({
      type: GroupRef,
      nullable: true,
      description: 'The group of the membership, if it is inherited or by invitation.',
      resolve: (member, _args, ctx) => (member.namespace_id === null ? null : loadGroup(ctx, member.namespace_id)),
    }),
  }),
});

const GroupMemberConnection = builder.connectionObject(
  { type: GroupMember, name: 'GroupMemberConnection' },
  { name: 'GroupMemberEdge' },
);
const ProjectMemberConnection = builder.connectionObject(
  { type: ProjectMember, name: 'ProjectMemberConnection' },
  { name: 'ProjectMemberEdge' },
);

const GroupMemberRelation = builder.enumType('GroupMemberRelation', {
  values: {
    DIRECT: { value: 'direct' },
    INHERITED: { value: 'inherited' },
    DESCENDANTS: { value: 'descendants' },
    SHARED_FROM_GROUPS: { value: 'shared' },
  } as const satisfies Record<string, { value: MemberRelation }>,
});

const ProjectMemberRelation = builder.enumType('ProjectMemberRelation', {
  values: {
    DIRECT: { value: 'direct' },
    INHERITED: { value: 'inherited' },
    INVITED_GROUPS: { value: 'shared' },
  } as const satisfies Record<string, { value: MemberRelation }>,
});

interface MemberArguments extends ConnectionArguments {
  readonly search?: string | null | undefined;
  readonly relations?: readonly MemberRelation[] | null | undefined;
  readonly accessLevels?: readonly number[] | null | undefined;
  readonly userIds?: readonly number[] | null | undefined;
}

const USUAL: readonly MemberRelation[] = ['direct', 'inherited'];

/** Reads all groups or projects of a level in one statement. */
const membersOf = (kind: MemberSource['kind']) =>
  batchedConnection((ctx, args: MemberArguments) =>
    listMembersBelow(ctx, kind, {
      query: args.search ?? undefined,
      relations: args.relations ?? USUAL,
      accessLevels: args.accessLevels ?? undefined,
      userIds: args.userIds ?? undefined,
    }),
  );
const groupMembers = membersOf('group');
const projectMembers = membersOf('project');

builder.objectField(GroupRef, 'groupMembers', (t) =>
  t.connection(
    {
      type: GroupMember,
      nullable: true,
      description: 'Requires authentication.',
      args: {
        search: t.arg.string(),
        relations: t.arg({ type: [GroupMemberRelation], defaultValue: ['direct', 'inherited'] }),
        accessLevels: t.arg({ type: [AccessLevelEnum] }),
        userIds: t.arg({ type: ['UserID'] }),
      },
      resolve: (group, args, ctx, info) => (ctx.actor.userId === null ? null : groupMembers(group.id, args, ctx, info)),
    },
    GroupMemberConnection,
  ),
);

projectField('projectMembers', ['id'], (t) =>
  t.connection(
    {
      type: ProjectMember,
      nullable: true,
      description: 'Requires authentication.',
      args: {
        search: t.arg.string(),
        relations: t.arg({ type: [ProjectMemberRelation], defaultValue: ['direct', 'inherited'] }),
        accessLevels: t.arg({ type: [AccessLevelEnum] }),
        userIds: t.arg({ type: ['UserID'] }),
      },
      resolve: (project, args, ctx, info) =>
        ctx.actor.userId === null ? null : projectMembers(project.id, args, ctx, info),
    },
    ProjectMemberConnection,
  ),
);

const groupMemberships = batchedConnection((ctx) => listMembershipsOf(ctx, 'group'));
const projectMemberships = batchedConnection((ctx) => listMembershipsOf(ctx, 'project'));

/** Returns false for private profiles, which hide memberships from the caller. */
export const showsMemberships = async (ctx: Context, userId: number): Promise<boolean> => {
  const row = ctx.actor.userId === null ? null : await loadRow(ctx, userId);
  return row !== null && viewIncludes(userView(ctx.actor, row), 'signed_in');
};

builder.interfaceField(UserRef, 'groupMemberships', (t) =>
  t.connection(
    {
      type: GroupMember,
      nullable: true,
      description: 'Memberships in groups that the caller can see.',
      resolve: async (user, args, ctx, info) =>
        (await showsMemberships(ctx, user.id)) ? groupMemberships(user.id, args, ctx, info) : null,
    },
    GroupMemberConnection,
  ),
);

builder.interfaceField(UserRef, 'projectMemberships', (t) =>
  t.connection(
    {
      type: ProjectMember,
      nullable: true,
      description: 'Memberships in projects that the caller can see.',
      resolve: async (user, args, ctx, info) =>
        (await showsMemberships(ctx, user.id)) ? projectMemberships(user.id, args, ctx, info) : null,
    },
    ProjectMemberConnection,
  ),
);

/** The number of `groupMemberships` or `projectMemberships`, for lists of users that show only the count. */
const countOf = (kind: MemberSource['kind']) => {
  const load = loader<number, number>((ctx, ids) =>
    listMembershipsOf(ctx, kind).counts(ids, Number.MAX_SAFE_INTEGER - 1),
  );
  return async (ctx: Context, userId: number): Promise<number | null> =>
    (await showsMemberships(ctx, userId)) ? ((await load(ctx, userId)) ?? 0) : null;
};
const groupCount = countOf('group');
const projectCount = countOf('project');

builder.interfaceFields(UserRef, (t) => ({
  groupCount: t.int({
    nullable: true,
    description: 'Groups that the caller can see and that have the user as a direct member.',
    resolve: (user, _args, ctx) => groupCount(ctx, user.id),
  }),
  projectCount: t.int({
    nullable: true,
    description: 'Projects that the caller can see and that have the user as a direct member.',
    resolve: (user, _args, ctx) => projectCount(ctx, user.id),
  }),
}));
