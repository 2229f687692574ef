import { CurrentUserRef, currentPassword, loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { disableTwoFactorOf } from './enrolment.ts';
import { listSessions, revokeOtherSessions, revokeSession, type SessionRow } from './sessions.ts';

mutationField('userTwoFactorDisable', {
  description:
    "Disables the second factor of a user who lost it. Administrators only, and not for an administrator's account.",
  input: (t) => ({ id: t.field({ type: 'UserID', required: true }), currentPassword: currentPassword(t) }),
  payload: { user: UserRef },
  run: async (ctx, { id, currentPassword: current_password }) => {
    await disableTwoFactorOf(ctx, id, { current_password: current_password ?? undefined });
    return { user: await loadUser(ctx, id) };
  },
});

const SessionRef = builder.objectRef<SessionRow>('Session').implement({
  description: 'A browser in which the caller is signed in.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (session) => gid('Session', session.id) }),
    ipAddress: t.exposeString('ip', { nullable: true, description: 'The address that started the session.' }),
    userAgent: t.exposeString('user_agent', { nullable: true, description: 'The `User-Agent` that the browser sent.' }),
    current: t.boolean({
      nullable: false,
      description: 'Whether this request uses the session.',
      resolve: ({ id }, _args, { actor }) => actor.credential?.kind === 'session' && actor.credential.id === id,
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    lastUsedAt: t.expose('last_used_at', { type: 'Time', nullable: false }),
    adminUntil: t.expose('admin_until', {
      type: 'Time',
      nullable: true,
      description: 'Until when the session is in admin mode. Null if it has not entered it.',
    }),
    expiresAt: t.expose('expires_at', {
      type: 'Time',
      nullable: false,
      description: 'When the session ends unless it is used again.',
    }),
  }),
});

const SessionConnection = builder.connectionObject(
  { type: SessionRef, name: 'SessionConnection' },
  { name: 'SessionEdge' },
);

builder.objectField(CurrentUserRef, 'sessions', (t) =>
  t.connection(
    {
      type: SessionRef,
      nullable: false,
      description: "The caller's active sessions, newest first.",
      resolve: (_user, args, ctx, info) => listConnection(args, info, listSessions(ctx)),
    },
    SessionConnection,
  ),
);

mutationField('sessionRevoke', {
  description: "Ends one of the caller's sessions at once. Without an id, ends all except the one of this request.",
  input: (t) => ({ id: t.field({ type: 'SessionID' }) }),
  payload: {},
  run: async (ctx, { id }) => {
    if (id == null) await revokeOtherSessions(ctx);
    else await revokeSession(ctx, id);
    return {};
  },
});
