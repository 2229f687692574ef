import { GroupConnection, GroupRef } from '#domains/groups/graphql.ts';
import { listGroupsOfUsers } from '#domains/groups/listing.ts';
import { UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { showsMemberships } from './members.ts';

interface GroupArguments extends ConnectionArguments {
  readonly search?: string | null | undefined;
}

const groupsOf = batchedConnection((ctx, { search }: GroupArguments) =>
  listGroupsOfUsers(ctx, { search: search ?? undefined }),
);

builder.interfaceField(UserRef, 'groups', (t) =>
  t.connection(
    {
      type: GroupRef,
      nullable: true,
      description: 'Groups that the caller can see and that have the user as a direct member, by name.',
      args: { search: t.arg.string() },
      resolve: async (user, args, ctx, info) =>
        (await showsMemberships(ctx, user.id)) ? groupsOf(user.id, args, ctx, info) : null,
    },
    GroupConnection,
  ),
);
