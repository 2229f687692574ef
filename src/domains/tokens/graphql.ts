import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { requireUser } from '#domains/users/policy.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { today } from '#platform/clock.ts';
import { createImpersonationToken, createToken, revokeCurrentToken, revokeToken, rotateToken } from './commands.ts';
import { isActive } from './model.ts';
import type { CredentialOrigin } from './origins.ts';
import { getCurrentToken, getToken, listImpersonationTokens, listTokens, type TokenRow } from './queries.ts';

export const CredentialOriginRef = builder.objectRef<CredentialOrigin>('CredentialOrigin').implement({
  description: 'The OAuth application that created a credential, directly or through a credential that it had created.',
  fields: (t) => ({
    applicationId: t.field({
      type: 'OauthApplicationID',
      nullable: true,
      description: 'Null when a password was exchanged for a token without an application.',
      resolve: (origin) => origin.application_id,
    }),
    applicationName: t.exposeString('application_name', { nullable: true, description: 'Its name at that time.' }),
    authorizedBy: t.field({
      type: UserRef,
      nullable: true,
      description: 'The user who authorised it. Null when their account was deleted.',
      resolve: ({ authorized_by_id }, _args, ctx) => loadUser(ctx, authorized_by_id),
    }),
  }),
});

export const PersonalAccessTokenRef = builder.objectRef<TokenRow>('PersonalAccessToken').implement({
  description: 'A token that acts for its user. Its value is returned once, at creation.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (token) => gid('PersonalAccessToken', token.id) }),
    name: t.exposeString('name', { nullable: false }),
    description: t.exposeString('description', { nullable: true }),
    scopes: t.exposeStringList('scopes', { nullable: { list: false, items: false } }),
    active: t.boolean({ nullable: false, resolve: (token, _args, ctx) => isActive(token, today(ctx.clock)) }),
    revoked: t.exposeBoolean('revoked', { nullable: false }),
    impersonation: t.exposeBoolean('impersonation', {
      nullable: false,
      description: 'Whether an administrator created it to act as the user, who does not see it.',
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    lastUsedAt: t.expose('last_used_at', { type: 'Time', nullable: true }),
    expiresAt: t.expose('expires_at', { type: 'Date', nullable: true }),
    user: t.field({ type: UserRef, nullable: true, resolve: (token, _args, ctx) => loadUser(ctx, token.user_id) }),
    createdBy: t.field({
      type: UserRef,
      nullable: true,
      description: 'Null when unknown or deleted.',
      resolve: ({ created_by_id }, _args, ctx) => (created_by_id === null ? null : loadUser(ctx, created_by_id)),
    }),
    origin: t.expose('origin', { type: CredentialOriginRef, nullable: true }),
  }),
});

export const PersonalAccessTokenConnection = builder.connectionObject(
  { type: PersonalAccessTokenRef, name: 'PersonalAccessTokenConnection' },
  { name: 'PersonalAccessTokenEdge' },
);

const TokenState = builder.enumType('PersonalAccessTokenState', { values: upperCase(['active', 'inactive']) });

builder.interfaceField(UserRef, 'personalAccessTokens', (t) =>
  t.connection(
    {
      type: PersonalAccessTokenRef,
      nullable: true,
      description: 'Visible to the user and to administrators.',
      args: {
        state: t.arg({ type: TokenState }),
        revoked: t.arg.boolean(),
        search: t.arg.string(),
        createdAfter: t.arg({ type: 'Time' }),
        createdBefore: t.arg({ type: 'Time' }),
        expiresAfter: t.arg({ type: 'Date' }),
        expiresBefore: t.arg({ type: 'Date' }),
      },
      resolve: (user, args, ctx, info) => {
        if (ctx.actor.userId === null || (ctx.actor.userId !== user.id && !ctx.actor.isAdmin)) return null;
        return listConnection(
          args,
          info,
          listTokens(ctx, {
            user_id: user.id,
            state: args.state ?? undefined,
            revoked: args.revoked ?? undefined,
            search: args.search ?? undefined,
            created_after: args.createdAfter ?? undefined,
            created_before: args.createdBefore ?? undefined,
            expires_after: args.expiresAfter ?? undefined,
            expires_before: args.expiresBefore ?? undefined,
          }),
        );
      },
    },
    PersonalAccessTokenConnection,
  ),
);

builder.interfaceField(UserRef, 'impersonationTokens', (t) =>
  t.connection(
    {
      type: PersonalAccessTokenRef,
      nullable: true,
      description: 'Visible to administrators.',
      args: { state: t.arg({ type: TokenState }) },
      resolve: async (user, args, ctx, info) =>
        ctx.actor.isAdmin
          ? listConnection(args, info, await listImpersonationTokens(ctx, user.id, args.state ?? 'all'))
          : null,
    },
    PersonalAccessTokenConnection,
  ),
);

builder.queryField('personalAccessToken', (t) =>
  t.field({
    type: PersonalAccessTokenRef,
    nullable: true,
    description: 'A token of the caller or, for administrators, of any user. Without an id, the token of this request.',
    args: { id: t.arg({ type: 'PersonalAccessTokenID' }) },
    resolve: (_root, { id }, ctx) => {
      if (ctx.actor.userId === null) return null;
      if (id != null) return orNull(getToken(ctx, id));
      return ctx.actor.credential?.kind !== 'token' ? null : getCurrentToken(ctx);
    },
  }),
);

mutationField('personalAccessTokenCreate', {
  description: 'Creates a token for the caller. Administrators can create one for another user.',
  input: (t) => ({
    name: t.string({ required: true }),
    description: t.string(),
    scopes: t.stringList({ required: true }),
    expiresAt: t.field({ type: 'Date' }),
    userId: t.field({ type: 'UserID' }),
  }),
  payload: { personalAccessToken: PersonalAccessTokenRef, token: 'String' },
  run: async (ctx, input) => {
    const { token, ...personalAccessToken } = await createToken(ctx, input.userId ?? requireUser(ctx), {
      name: input.name,
      description: input.description,
      scopes: input.scopes,
      expires_at: input.expiresAt,
    });
    return { personalAccessToken, token };
  },
});

mutationField('personalAccessTokenRevoke', {
  description: 'Revokes a token. Without an id, revokes the token of this request.',
  input: (t) => ({ id: t.field({ type: 'PersonalAccessTokenID' }) }),
  payload: { personalAccessToken: PersonalAccessTokenRef },
  run: async (ctx, { id }) => ({
    personalAccessToken: id == null ? await revokeCurrentToken(ctx) : await revokeToken(ctx, id),
  }),
});

mutationField('personalAccessTokenRotate', {
  description: 'Revokes a token and creates a new one in its place. Without an id, rotates the token of this request.',
  input: (t) => ({
    id: t.field({ type: 'PersonalAccessTokenID' }),
    expiresAt: t.field({ type: 'Date', description: 'Defaults to a week from now.' }),
  }),
  payload: { personalAccessToken: PersonalAccessTokenRef, token: 'String' },
  run: async (ctx, { id, expiresAt }) => {
    const { token, ...personalAccessToken } = await rotateToken(ctx, id ?? 'current', { expires_at: expiresAt });
    return { personalAccessToken, token };
  },
});

mutationField('impersonationTokenCreate', {
  description: 'Creates a token with which administrators act as the user.',
  input: (t) => ({
    userId: t.field({ type: 'UserID', required: true }),
    name: t.string({ required: true }),
    description: t.string(),
    scopes: t.stringList({ required: true }),
    expiresAt: t.field({ type: 'Date', required: true }),
  }),
  payload: { personalAccessToken: PersonalAccessTokenRef, token: 'String' },
  run: async (ctx, { userId, expiresAt, name, description, scopes }) => {
    const { token, ...personalAccessToken } = await createImpersonationToken(ctx, userId, {
      name,
      description,
      scopes,
      expires_at: expiresAt,
    });
    return { personalAccessToken, token };
  },
});
