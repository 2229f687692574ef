import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { addEmail, type EmailRow, getEmailById, listEmails, removeEmail, resendConfirmation } from '../emails.ts';
import { currentPassword, UserRef } from '../graphql.ts';
import { requireUser } from '../policy.ts';

const EmailRef = builder.objectRef<EmailRow>('Email').implement({
  description: 'A secondary address. It has no effect until it is confirmed.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (email) => gid('Email', email.id) }),
    email: t.exposeString('email', { nullable: false }),
    confirmedAt: t.expose('confirmed_at', { type: 'Time', nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
  }),
});

const EmailConnection = builder.connectionObject({ type: EmailRef, name: 'EmailConnection' }, { name: 'EmailEdge' });

builder.interfaceField(UserRef, 'emails', (t) =>
  t.connection(
    {
      type: EmailRef,
      nullable: true,
      description: 'Secondary addresses, visible to the user and to administrators.',
      resolve: async (user, args, ctx, info) => {
        if (ctx.actor.userId === null || (ctx.actor.userId !== user.id && !ctx.actor.isAdmin)) return null;
        return listConnection(args, info, await listEmails(ctx, user.id));
      },
    },
    EmailConnection,
  ),
);

mutationField('userEmailAdd', {
  description: 'Adds an address and mails it a confirmation link. Administrators can add one for another user.',
  input: (t) => ({
    email: t.string({ required: true }),
    userId: t.field({ type: 'UserID' }),
    skipConfirmation: t.boolean({ description: 'Marks the address as confirmed. Administrators only.' }),
    currentPassword: currentPassword(t),
  }),
  payload: { email: EmailRef },
  run: async (ctx, input) => ({
    email: await addEmail(ctx, input.userId ?? requireUser(ctx), {
      email: input.email,
      skip_confirmation: input.skipConfirmation ?? undefined,
      current_password: input.currentPassword ?? undefined,
    }),
  }),
});

mutationField('userEmailResendConfirmation', {
  description: 'Mails a new confirmation link to an unconfirmed address.',
  input: (t) => ({ id: t.field({ type: 'EmailID', required: true }) }),
  payload: { email: EmailRef },
  run: async (ctx, { id }) => ({ email: await resendConfirmation(ctx, id) }),
});

mutationField('userEmailRemove', {
  description: 'Removes an address. Administrators can remove those of another user.',
  input: (t) => ({ id: t.field({ type: 'EmailID', required: true }), currentPassword: currentPassword(t) }),
  payload: {},
  run: async (ctx, { id, currentPassword: current_password }) => {
    await removeEmail(ctx, await getEmailById(ctx, id), { current_password: current_password ?? undefined });
    return {};
  },
});
