import { CurrentUserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type AuthorizedApplication, authorizedApplications, revokeAuthorization } from '../tokens.ts';
import { ApplicationRef } from './applications.ts';

/** What users may know of an application that somebody else registered: that it is, and what they let it do. */
const AuthorizedApplicationRef = builder.objectRef<AuthorizedApplication>('AuthorizedApplication').implement({
  description: 'An application that the caller has let in.',
  fields: (t) => ({
    id: t.field({ type: 'OauthApplicationID', nullable: false, resolve: ({ application }) => application.id }),
    applicationId: t.string({
      nullable: false,
      description: 'What it sends as `client_id`.',
      resolve: ({ application }) => application.uid,
    }),
    name: t.string({ nullable: false, resolve: ({ application }) => application.name }),
    scopes: t.stringList({
      nullable: { list: false, items: false },
      description: 'All that its living tokens open together.',
      resolve: ({ scopes }) => [...scopes],
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    lastUsedAt: t.expose('last_used_at', { type: 'Time', nullable: true }),
    credentialsCount: t.exposeInt('credentials', {
      nullable: false,
      description: 'How much it made that still counts: tokens, applications, runners, hooks.',
    }),
    oauthApplication: t.field({
      type: ApplicationRef,
      nullable: true,
      description: "The application itself, where it is the caller's own, or the caller an administrator.",
      resolve: ({ application }, _args, { actor }) =>
        actor.isAdmin || (application.owner_id !== null && application.owner_id === actor.userId) ? application : null,
    }),
  }),
});

builder.objectField(CurrentUserRef, 'authorizedApplications', (t) =>
  t.field({
    type: [AuthorizedApplicationRef],
    nullable: { list: true, items: false },
    description: 'The applications that can call on behalf of the caller, or made what still counts, newest first.',
    resolve: (_user, _args, ctx) => authorizedApplications(ctx),
  }),
);

mutationField('oauthAuthorizationRevoke', {
  description: 'Shuts an application out that the caller has let in: all its tokens that act for him are revoked.',
  input: (t) => ({ id: t.field({ type: 'OauthApplicationID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await revokeAuthorization(ctx, id);
    return {};
  },
});
