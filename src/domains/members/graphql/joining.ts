import { AccessLevelEnum, AccessLevelRef } from '#domains/access/graphql.ts';
import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { deleteInvitation, type InvitationRow, invitationsBelow, invite, updateInvitation } from '../invitations.ts';
import { groupSource, type MemberSource, projectSource } from '../model.ts';
import { type AccessRequestRow, accessRequestsBelow, approveRequest, denyRequest, requestAccess } from '../requests.ts';

const AccessRequest = builder.objectRef<AccessRequestRow>('AccessRequest').implement({
  description: 'A request to become a member.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('AccessRequest', id) }),
    user: t.field({ type: UserRef, nullable: true, resolve: (row, _args, ctx) => loadUser(ctx, row.user_id) }),
    requestedAt: t.expose('requested_at', { type: 'Time', nullable: false }),
  }),
});
const AccessRequestConnection = builder.connectionObject(
  { type: AccessRequest, name: 'AccessRequestConnection' },
  { name: 'AccessRequestEdge' },
);

const Invitation = builder.objectRef<InvitationRow>('MemberInvitation').implement({
  description: 'An open invitation to an email address.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('MemberInvitation', id) }),
    email: t.exposeString('email', { nullable: false }),
    accessLevel: t.field({ type: AccessLevelRef, nullable: false, resolve: (row) => row.access_level }),
    expiresAt: t.expose('expires_at', { type: 'Date', nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    createdBy: t.field({
      type: UserRef,
      nullable: true,
      resolve: (row, _args, ctx) => (row.created_by_id === null ? null : loadUser(ctx, row.created_by_id)),
    }),
  }),
});
const InvitationConnection = builder.connectionObject(
  { type: Invitation, name: 'MemberInvitationConnection' },
  { name: 'MemberInvitationEdge' },
);

const ONLY_MANAGERS = 'Only for those who manage the members. Null for others.';

// One statement for all groups or projects of a page.
const requestsOf = (kind: MemberSource['kind']) => batchedConnection((ctx) => accessRequestsBelow(ctx, kind));
const [requestsOfGroups, requestsOfProjects] = [requestsOf('group'), requestsOf('project')];

interface InvitationArguments extends ConnectionArguments {
  readonly search?: string | null | undefined;
}
const invitationsOf = (kind: MemberSource['kind']) =>
  batchedConnection((ctx, { search }: InvitationArguments) => invitationsBelow(ctx, kind, search ?? undefined));
const [invitationsOfGroups, invitationsOfProjects] = [invitationsOf('group'), invitationsOf('project')];

builder.objectField(GroupRef, 'accessRequests', (t) =>
  t.connection(
    {
      type: AccessRequest,
      nullable: true,
      description: ONLY_MANAGERS,
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_member') ? requestsOfGroups(group.id, args, ctx, info) : null,
    },
    AccessRequestConnection,
  ),
);
builder.objectField(GroupRef, 'invitations', (t) =>
  t.connection(
    {
      type: Invitation,
      nullable: true,
      description: ONLY_MANAGERS,
      args: { search: t.arg.string() },
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_member') ? invitationsOfGroups(group.id, args, ctx, info) : null,
    },
    InvitationConnection,
  ),
);
projectField('accessRequests', JUDGED, (t) =>
  t.connection(
    {
      type: AccessRequest,
      nullable: true,
      description: ONLY_MANAGERS,
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_member') ? requestsOfProjects(project.id, args, ctx, info) : null,
    },
    AccessRequestConnection,
  ),
);
projectField('invitations', JUDGED, (t) =>
  t.connection(
    {
      type: Invitation,
      nullable: true,
      description: ONLY_MANAGERS,
      args: { search: t.arg.string() },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_member') ? invitationsOfProjects(project.id, args, ctx, info) : null,
    },
    InvitationConnection,
  ),
);

interface PlaceInput {
  groupPath?: string | null;
  projectPath?: string | null;
}

/** Returns the group or project of the input. Exactly one must be given. */
const sourceOf = async (ctx: Context, { groupPath, projectPath }: PlaceInput): Promise<MemberSource> => {
  if (groupPath != null && projectPath == null) return groupSource(await getGroup(ctx, { path: groupPath }));
  if (projectPath != null && groupPath == null) return projectSource(await getProject(ctx, { path: projectPath }));
  throw badRequest('either groupPath or projectPath is required');
};

mutationField('accessRequestCreate', {
  description: 'Requests membership of a group or project.',
  input: (t) => ({ groupPath: t.id(), projectPath: t.id() }),
  payload: { accessRequest: AccessRequest },
  run: async (ctx, place) => ({ accessRequest: await requestAccess(ctx, await sourceOf(ctx, place)) }),
});

mutationField('accessRequestApprove', {
  description: 'Approves an access request. The role defaults to Developer.',
  input: (t) => ({
    groupPath: t.id(),
    projectPath: t.id(),
    userId: t.field({ type: 'UserID', required: true }),
    accessLevel: t.field({ type: AccessLevelEnum }),
  }),
  payload: { user: UserRef },
  run: async (ctx, { userId, accessLevel, ...place }) => {
    await approveRequest(ctx, await sourceOf(ctx, place), userId, accessLevel ?? undefined);
    return { user: await loadUser(ctx, userId) };
  },
});

mutationField('accessRequestDeny', {
  description: 'Denies an access request. Users can withdraw their own.',
  input: (t) => ({
    groupPath: t.id(),
    projectPath: t.id(),
    userId: t.field({ type: 'UserID', required: true }),
  }),
  payload: {},
  run: async (ctx, { userId, ...place }) => {
    await denyRequest(ctx, await sourceOf(ctx, place), userId);
    return {};
  },
});

mutationField('invitationCreate', {
  description: 'Invites an email address, by a mail with a link.',
  input: (t) => ({
    groupPath: t.id(),
    projectPath: t.id(),
    email: t.string({ required: true }),
    accessLevel: t.field({ type: AccessLevelEnum, required: true }),
    expiresAt: t.field({ type: 'Date', description: 'The expiry of the membership.' }),
  }),
  payload: { invitation: Invitation },
  run: async (ctx, { email, accessLevel, expiresAt, ...place }) => ({
    invitation: await invite(ctx, await sourceOf(ctx, place), {
      email,
      access_level: accessLevel,
      expires_at: expiresAt,
    }),
  }),
});

mutationField('invitationUpdate', {
  description: 'Changes an open invitation.',
  input: (t) => ({
    groupPath: t.id(),
    projectPath: t.id(),
    email: t.string({ required: true }),
    accessLevel: t.field({ type: AccessLevelEnum }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { invitation: Invitation },
  run: async (ctx, { email, accessLevel, expiresAt, ...place }) => ({
    invitation: await updateInvitation(ctx, await sourceOf(ctx, place), email, {
      access_level: accessLevel ?? undefined,
      expires_at: expiresAt,
    }),
  }),
});

mutationField('invitationDelete', {
  description: 'Revokes an invitation and its link.',
  input: (t) => ({ groupPath: t.id(), projectPath: t.id(), email: t.string({ required: true }) }),
  payload: {},
  run: async (ctx, { email, ...place }) => {
    await deleteInvitation(ctx, await sourceOf(ctx, place), email);
    return {};
  },
});
