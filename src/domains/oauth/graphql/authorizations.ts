import { CurrentUserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type AuthorizedApplication, authorizedApplications, revokeAuthorization } from '../tokens.ts';
import { ApplicationRef } from './applications.ts';

/** The fields of an application that all users who have authorised it may see. */
const AuthorizedApplicationRef = builder.objectRef<AuthorizedApplication>('AuthorizedApplication').implement({
  description: 'An application that the caller has authorised.',
  fields: (t) => ({
    id: t.field({ type: 'OauthApplicationID', nullable: false, resolve: ({ application }) => application.id }),
    applicationId: t.string({
      nullable: false,
      description: 'The `client_id` that it sends.',
      resolve: ({ application }) => application.uid,
    }),
    name: t.string({ nullable: false, resolve: ({ application }) => application.name }),
    scopes: t.stringList({
      nullable: { list: false, items: false },
      description: 'The scopes of all its active tokens.',
      resolve: ({ scopes }) => [...scopes],
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    lastUsedAt: t.expose('last_used_at', { type: 'Time', nullable: true }),
    credentialsCount: t.exposeInt('credentials', {
      nullable: false,
      description: 'The number of active credentials it created: tokens, applications, runners, webhooks.',
    }),
    oauthApplication: t.field({
      type: ApplicationRef,
      nullable: true,
      description: 'The application itself, for its owner and for administrators.',
      resolve: ({ application }, _args, { actor }) =>
        actor.isAdmin || (application.owner_id !== null && application.owner_id === actor.userId) ? application : null,
    }),
  }),
});

builder.objectField(CurrentUserRef, 'authorizedApplications', (t) =>
  t.field({
    type: [AuthorizedApplicationRef],
    nullable: { list: true, items: false },
    description:
      'The applications that can act for the caller, or created credentials that are still active, newest first.',
    resolve: (_user, _args, ctx) => authorizedApplications(ctx),
  }),
);

mutationField('oauthAuthorizationRevoke', {
  description: "Revokes an application's access: all its tokens that act for the caller are revoked.",
  input: (t) => ({ id: t.field({ type: 'OauthApplicationID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await revokeAuthorization(ctx, id);
    return {};
  },
});
