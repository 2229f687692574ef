import { CredentialOriginRef } from '#domains/tokens/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import {
  type ApplicationRow,
  createApplication,
  getApplication,
  listApplications,
  removeApplication,
  renewSecret,
  updateApplication,
} from '../applications.ts';

export const ApplicationRef = builder.objectRef<ApplicationRow>('OauthApplication').implement({
  description:
    'An application that users can let act for them. Its secret is returned once, when it is created or renewed.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (application) => gid('OauthApplication', application.id) }),
    applicationId: t.exposeString('uid', { nullable: false, description: 'The `client_id` that clients send.' }),
    name: t.exposeString('name', { nullable: false }),
    redirectUris: t.exposeStringList('redirect_uris', { nullable: { list: false, items: false } }),
    scopes: t.exposeStringList('scopes', { nullable: { list: false, items: false } }),
    confidential: t.exposeBoolean('confidential', {
      nullable: false,
      description: 'Whether it can keep its secret. Public applications must use PKCE.',
    }),
    trusted: t.exposeBoolean('trusted', { nullable: false, description: 'Whether users are not asked for consent.' }),
    owner: t.field({
      type: UserRef,
      nullable: true,
      description: 'The user who registered it. Null for instance-wide applications.',
      resolve: ({ owner_id }, _args, ctx) => (owner_id === null ? null : loadUser(ctx, owner_id)),
    }),
    createdBy: t.field({
      type: UserRef,
      nullable: true,
      description: 'Null when unknown or deleted.',
      resolve: ({ created_by_id }, _args, ctx) => (created_by_id === null ? null : loadUser(ctx, created_by_id)),
    }),
    origin: t.expose('origin', { type: CredentialOriginRef, nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
  }),
});

const ApplicationConnection = builder.connectionObject(
  { type: ApplicationRef, name: 'OauthApplicationConnection' },
  { name: 'OauthApplicationEdge' },
);

builder.queryField('oauthApplications', (t) =>
  t.connection(
    {
      type: ApplicationRef,
      nullable: true,
      description:
        "The caller's own applications. With `all`, those of every user and of the instance, for administrators.",
      args: { all: t.arg.boolean() },
      resolve: (_root, args, ctx, info) =>
        ctx.actor.userId === null
          ? null
          : listConnection(args, info, listApplications(ctx, { all: args.all ?? false })),
    },
    ApplicationConnection,
  ),
);

builder.queryField('oauthApplication', (t) =>
  t.field({
    type: ApplicationRef,
    nullable: true,
    description: "One of the caller's own applications, or any one for administrators.",
    args: { id: t.arg({ type: 'OauthApplicationID', required: true }) },
    resolve: (_root, { id }, ctx) => (ctx.actor.userId === null ? null : orNull(getApplication(ctx, id))),
  }),
);

mutationField('oauthApplicationCreate', {
  description: 'Registers an application of the caller. Administrators can register instance-wide ones.',
  input: (t) => ({
    name: t.string({ required: true }),
    redirectUris: t.stringList({ required: true }),
    scopes: t.stringList({ required: true }),
    confidential: t.boolean({ description: 'Defaults to true.' }),
    trusted: t.boolean({ description: 'Only for instance-wide applications: users are not asked for consent.' }),
    forHub: t.boolean({ description: 'Registers it for the whole instance.' }),
  }),
  payload: { oauthApplication: ApplicationRef, secret: 'String' },
  run: async (ctx, input) => {
    const { secret, ...oauthApplication } = await createApplication(
      ctx,
      {
        name: input.name,
        redirect_uris: input.redirectUris,
        scopes: input.scopes,
        confidential: input.confidential ?? undefined,
        trusted: input.trusted ?? undefined,
      },
      { forHub: input.forHub ?? false },
    );
    return { oauthApplication, secret };
  },
});

mutationField('oauthApplicationUpdate', {
  description: 'Changes the given attributes. Issued tokens stay valid, without scopes that it loses.',
  input: (t) => ({
    id: t.field({ type: 'OauthApplicationID', required: true }),
    name: t.string(),
    redirectUris: t.stringList(),
    scopes: t.stringList(),
    confidential: t.boolean(),
    trusted: t.boolean(),
  }),
  payload: { oauthApplication: ApplicationRef },
  run: async (ctx, { id, ...input }) => ({
    oauthApplication: await updateApplication(ctx, id, {
      ...(input.name == null ? {} : { name: input.name }),
      ...(input.redirectUris == null ? {} : { redirect_uris: input.redirectUris }),
      ...(input.scopes == null ? {} : { scopes: input.scopes }),
      ...(input.confidential == null ? {} : { confidential: input.confidential }),
      ...(input.trusted == null ? {} : { trusted: input.trusted }),
    }),
  }),
});

mutationField('oauthApplicationDestroy', {
  description: 'Deletes an application with all its codes and tokens.',
  input: (t) => ({ id: t.field({ type: 'OauthApplicationID', required: true }) }),
  payload: { oauthApplication: ApplicationRef },
  run: async (ctx, { id }) => ({ oauthApplication: await removeApplication(ctx, id) }),
});

mutationField('oauthApplicationRenewSecret', {
  description: "Replaces an application's secret. The old one stops working, tokens stay valid.",
  input: (t) => ({ id: t.field({ type: 'OauthApplicationID', required: true }) }),
  payload: { oauthApplication: ApplicationRef, secret: 'String' },
  run: async (ctx, { id }) => {
    const { secret, ...oauthApplication } = await renewSecret(ctx, id);
    return { oauthApplication, secret };
  },
});
