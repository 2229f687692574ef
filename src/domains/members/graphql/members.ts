import { AccessLevelEnum, AccessLevelRef } from '#domains/access/graphql.ts';
import { GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { findGroup, getGroup } from '#domains/groups/queries.ts';
import { loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { findProject, getProject } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { userView, viewIncludes } from '#domains/users/policy.ts';
import { findUserByUsername, usersByIds } from '#domains/users/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { addMember, removeMember, updateMember } from '../commands.ts';
import { copyMembers } from '../copying.ts';
import { groupSource, type MemberSource, projectSource } from '../model.ts';
import { listMembersBelow, listMembershipsOf, type MemberRelation, type MemberRow } from '../queries.ts';
import { shareProject, unshareProject } from '../shares.ts';

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

const GroupMember = builder.objectRef<MemberRow>('GroupMember').implement({
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

const ProjectMember = builder.objectRef<MemberRow>('ProjectMember').implement({
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
    description: 'Groups that the caller can see and of which the user is a direct member.',
    resolve: (user, _args, ctx) => groupCount(ctx, user.id),
  }),
  projectCount: t.int({
    nullable: true,
    description: 'Projects that the caller can see and of which the user is a direct member.',
    resolve: (user, _args, ctx) => projectCount(ctx, user.id),
  }),
}));

/** Returns the user of the input, by id or by username. */
const userOf = async (
  ctx: Context,
  { userId, username }: { userId?: number | null; username?: string | null },
): Promise<number> => {
  if ((userId == null) === (username == null)) throw badRequest('either userId or username is required');
  if (userId != null) return userId;
  const user = await findUserByUsername(ctx, username ?? '');
  if (!user) throw notFound('User');
  return user.id;
};

const person = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) => ({
  userId: t.field({ type: 'UserID' }),
  username: t.string(),
});

const groupOf = async (ctx: Context, path: string) => groupSource(await getGroup(ctx, { path }));
const projectOf = async (ctx: Context, path: string) => projectSource(await getProject(ctx, { path }));

mutationField('groupMemberAdd', {
  description: 'Adds a user to a group.',
  input: (t) => ({
    groupPath: t.id({ required: true }),
    ...person(t),
    accessLevel: t.field({ type: AccessLevelEnum, required: true }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { member: GroupMember },
  run: async (ctx, { groupPath, accessLevel, expiresAt, ...who }) => ({
    member: await addMember(ctx, await groupOf(ctx, groupPath), {
      user_id: await userOf(ctx, who),
      access_level: accessLevel,
      expires_at: expiresAt,
    }),
  }),
});

mutationField('groupMemberUpdate', {
  description: 'Changes the role or the expiry of a group member. A null expiry means never.',
  input: (t) => ({
    groupPath: t.id({ required: true }),
    ...person(t),
    accessLevel: t.field({ type: AccessLevelEnum }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { member: GroupMember },
  run: async (ctx, { groupPath, accessLevel, expiresAt, ...who }) => ({
    member: await updateMember(ctx, await groupOf(ctx, groupPath), await userOf(ctx, who), {
      access_level: accessLevel ?? undefined,
      expires_at: expiresAt,
    }),
  }),
});

mutationField('groupMemberRemove', {
  description: 'Ends a membership of a group, and those in groups and projects below it.',
  input: (t) => ({
    groupPath: t.id({ required: true }),
    ...person(t),
    skipSubresources: t.boolean(),
    unassignIssuables: t.boolean(),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { groupPath, skipSubresources, unassignIssuables, ...who }) => {
    const options = {
      skipSubresources: skipSubresources ?? undefined,
      unassignIssuables: unassignIssuables ?? undefined,
    };
    await removeMember(ctx, await groupOf(ctx, groupPath), await userOf(ctx, who), options);
    // A user who has left may no longer see it.
    return { group: await findGroup(ctx, { path: groupPath }) };
  },
});

mutationField('projectMemberAdd', {
  description: 'Adds a user to a project.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    ...person(t),
    accessLevel: t.field({ type: AccessLevelEnum, required: true }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { member: ProjectMember },
  run: async (ctx, { projectPath, accessLevel, expiresAt, ...who }) => ({
    member: await addMember(ctx, await projectOf(ctx, projectPath), {
      user_id: await userOf(ctx, who),
      access_level: accessLevel,
      expires_at: expiresAt,
    }),
  }),
});

mutationField('projectMemberUpdate', {
  description: 'Changes the role or the expiry of a project member. A null expiry means never.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    ...person(t),
    accessLevel: t.field({ type: AccessLevelEnum }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { member: ProjectMember },
  run: async (ctx, { projectPath, accessLevel, expiresAt, ...who }) => ({
    member: await updateMember(ctx, await projectOf(ctx, projectPath), await userOf(ctx, who), {
      access_level: accessLevel ?? undefined,
      expires_at: expiresAt,
    }),
  }),
});

mutationField('projectMemberRemove', {
  description: 'Ends a membership of a project.',
  input: (t) => ({ projectPath: t.id({ required: true }), ...person(t), unassignIssuables: t.boolean() }),
  payload: { project: ProjectRef },
  run: async (ctx, { projectPath, unassignIssuables, ...who }) => {
    const options = { unassignIssuables: unassignIssuables ?? undefined };
    await removeMember(ctx, await projectOf(ctx, projectPath), await userOf(ctx, who), options);
    return { project: await findProject(ctx, { path: projectPath }) };
  },
});

mutationField('projectShare', {
  description: 'Shares a project with the members of a group, up to a role.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    sharedWithPath: t.id({ required: true }),
    accessLevel: t.field({ type: AccessLevelEnum, required: true }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { project: ProjectRef },
  run: async (ctx, { projectPath, sharedWithPath, accessLevel, expiresAt }) => {
    const project = await getProject(ctx, { path: projectPath });
    await shareProject(ctx, project, { path: sharedWithPath }, { group_access: accessLevel, expires_at: expiresAt });
    return { project: await getProject(ctx, { path: projectPath }) };
  },
});

mutationField('projectUnshare', {
  description: 'Stops sharing a project with a group.',
  input: (t) => ({ projectPath: t.id({ required: true }), sharedWithPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { projectPath, sharedWithPath }) => {
    await unshareProject(ctx, await getProject(ctx, { path: projectPath }), { path: sharedWithPath });
    return { project: await findProject(ctx, { path: projectPath }) };
  },
});

mutationField('projectMembersImport', {
  description: 'Adds the members of one project to another. Existing members are left unchanged.',
  input: (t) => ({ projectPath: t.id({ required: true }), sourceProjectPath: t.id({ required: true }) }),
  payload: { project: ProjectRef, addedCount: 'Int' },
  run: async (ctx, { projectPath, sourceProjectPath }) => {
    const project = await getProject(ctx, { path: projectPath });
    const addedCount = await copyMembers(ctx, await getProject(ctx, { path: sourceProjectPath }), project);
    return { project, addedCount };
  },
});
