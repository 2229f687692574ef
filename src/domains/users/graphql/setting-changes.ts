import { SettingChangeRef } from '#domains/settings/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { loadUser, UserRef } from '../graphql.ts';

builder.objectField(SettingChangeRef, 'user', (t) =>
  t.field({
    type: UserRef,
    nullable: true,
    description: 'The user who made the change. Null once they are deleted.',
    resolve: ({ user_id }, _args, ctx) => (user_id === null ? null : loadUser(ctx, user_id)),
  }),
);
