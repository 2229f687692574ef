import { AccessLevelEnum } from '#domains/access/graphql.ts';
import { GroupRef } from '#domains/groups/graphql.ts';
import { findGroup, getGroup } from '#domains/groups/queries.ts';
import { ProjectRef } from '#domains/projects/graphql.ts';
import { findProject, getProject } from '#domains/projects/queries.ts';
import { findUserByUsername } from '#domains/users/queries.ts';
import type { InputFields } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { addMember, removeMember, updateMember } from '../commands.ts';
import { copyMembers } from '../copying.ts';
import { groupSource, projectSource } from '../model.ts';
import { shareProject, unshareProject } from '../shares.ts';
import { GroupMember, ProjectMember } from './members.ts';

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

const person = (t: InputFields) => ({
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
