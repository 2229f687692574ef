import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { PersonalAccessTokenConnection, PersonalAccessTokenRef } from '#domains/tokens/graphql.ts';
import { UserConnection, UserRef } from '#domains/users/graphql.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { mutationField } from '#graphql/mutation.ts';
import {
  addServiceAccount,
  changeServiceAccount,
  createServiceAccountToken,
  removeServiceAccount,
  revokeServiceAccountToken,
  rotateServiceAccountToken,
} from './commands.ts';
import { listServiceAccounts, listServiceAccountTokens } from './queries.ts';

builder.objectField(GroupRef, 'serviceAccounts', (t) =>
  t.connection(
    {
      type: UserRef,
      nullable: true,
      description: 'The service accounts of a top-level group. Visible to its Owners.',
      resolve: async (group, args, ctx, info) =>
        group.parent_id === null && canOnGroup(ctx, group, 'admin_service_account')
          ? listConnection(args, info, await listServiceAccounts(ctx, { id: group.id }))
          : null,
    },
    UserConnection,
  ),
);

builder.objectField(GroupRef, 'serviceAccountTokens', (t) =>
  t.connection(
    {
      type: PersonalAccessTokenRef,
      nullable: true,
      description: 'The tokens of one of its service accounts. Visible to Owners of the group.',
      args: { userId: t.arg({ type: 'UserID', required: true }) },
      resolve: async (group, args, ctx, info) =>
        group.parent_id === null && canOnGroup(ctx, group, 'admin_service_account')
          ? listConnection(args, info, await listServiceAccountTokens(ctx, { id: group.id }, args.userId))
          : null,
    },
    PersonalAccessTokenConnection,
  ),
);

builder.queryField('serviceAccounts', (t) =>
  t.connection(
    {
      type: UserRef,
      nullable: true,
      description: 'The service accounts of the instance. Visible to administrators.',
      resolve: async (_root, args, ctx, info) =>
        ctx.actor.isAdmin ? listConnection(args, info, await listServiceAccounts(ctx, null)) : null,
    },
    UserConnection,
  ),
);

const groupPath = (t: InputFields) => t.id({ description: 'The group. Without one, an account of the instance.' });
const attributes = (t: InputFields) => ({ name: t.string(), username: t.string(), email: t.string() });
const given = ({ name, username, email }: Record<'name' | 'username' | 'email', string | null | undefined>) => ({
  name: name ?? undefined,
  username: username ?? undefined,
  email: email ?? undefined,
});
const holder = (path: string | null | undefined) => (path == null ? null : { path });

mutationField('serviceAccountCreate', {
  description:
    'Creates a service account of a top-level group or of the instance. Generates the attributes that are not given.',
  input: (t) => ({ groupPath: groupPath(t), ...attributes(t) }),
  payload: { serviceAccount: UserRef },
  run: async (ctx, input) => ({
    serviceAccount: await addServiceAccount(ctx, holder(input.groupPath), {
      ...given({ name: input.name, username: input.username, email: input.email }),
    }),
  }),
});

mutationField('serviceAccountUpdate', {
  description: 'Changes a service account.',
  input: (t) => ({
    groupPath: groupPath(t),
    userId: t.field({ type: 'UserID', required: true }),
    ...attributes(t),
  }),
  payload: { serviceAccount: UserRef },
  run: async (ctx, { groupPath: path, userId, name, username, email }) => ({
    serviceAccount: await changeServiceAccount(ctx, holder(path), userId, given({ name, username, email })),
  }),
});

mutationField('serviceAccountDelete', {
  description:
    'Deletes a service account. Its contributions move to the ghost user. With `hardDelete` they are deleted, and so are the groups that nobody else owns.',
  input: (t) => ({
    groupPath: groupPath(t),
    userId: t.field({ type: 'UserID', required: true }),
    hardDelete: t.boolean(),
  }),
  payload: {},
  run: async (ctx, { groupPath: path, userId, hardDelete }) => {
    await removeServiceAccount(ctx, holder(path), userId, { hardDelete: hardDelete ?? false });
    return {};
  },
});

mutationField('serviceAccountTokenCreate', {
  description: 'Creates a token for a service account.',
  input: (t) => ({
    groupPath: groupPath(t),
    userId: t.field({ type: 'UserID', required: true }),
    name: t.string({ required: true }),
    description: t.string(),
    scopes: t.stringList({ required: true }),
    expiresAt: t.field({ type: 'Date' }),
  }),
  payload: { personalAccessToken: PersonalAccessTokenRef, token: 'String' },
  run: async (ctx, { groupPath: path, userId, expiresAt, ...input }) => {
    const { token, ...personalAccessToken } = await createServiceAccountToken(ctx, holder(path), userId, {
      name: input.name,
      description: input.description,
      scopes: input.scopes,
      expires_at: expiresAt,
    });
    return { personalAccessToken, token };
  },
});

const tokenInput = (t: InputFields) => ({
  groupPath: groupPath(t),
  userId: t.field({ type: 'UserID', required: true }),
  id: t.field({ type: 'PersonalAccessTokenID', required: true }),
});

mutationField('serviceAccountTokenRotate', {
  description: 'Revokes a token of a service account and creates a new one in its place.',
  input: (t) => ({
    ...tokenInput(t),
    expiresAt: t.field({ type: 'Date', description: 'Defaults to a week from now.' }),
  }),
  payload: { personalAccessToken: PersonalAccessTokenRef, token: 'String' },
  run: async (ctx, { groupPath: path, userId, id, expiresAt }) => {
    const wanted = { expires_at: expiresAt };
    const { token, ...personalAccessToken } = await rotateServiceAccountToken(ctx, holder(path), userId, id, wanted);
    return { personalAccessToken, token };
  },
});

mutationField('serviceAccountTokenRevoke', {
  description: 'Revokes a token of a service account.',
  input: tokenInput,
  payload: { personalAccessToken: PersonalAccessTokenRef },
  run: async (ctx, { groupPath: path, userId, id }) => ({
    personalAccessToken: await revokeServiceAccountToken(ctx, holder(path), userId, id),
  }),
});
