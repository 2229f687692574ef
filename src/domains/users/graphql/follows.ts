import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type FollowSide, listFollowsOf, setFollow } from '../follows.ts';
import { seen, UserConnection, UserRef } from '../graphql.ts';

const followsField = (side: FollowSide, description: string): void => {
  const follows = batchedConnection((ctx) => listFollowsOf(ctx, side));
  builder.interfaceField(UserRef, side, (t) =>
    t.connection(
      {
        type: UserRef,
        nullable: true,
        description,
        resolve: async (user, args, ctx, info) =>
          (await seen(ctx, user, 'signed_in', (row) => row.id)) === null ? null : follows(user.id, args, ctx, info),
      },
      UserConnection,
    ),
  );
};

followsField('followers', 'The users who follow this user.');
followsField('following', 'The users whom this user follows.');

const followMutation = (name: string, description: string, follow: boolean): void =>
  mutationField(name, {
    description,
    input: (t) => ({ id: t.field({ type: 'UserID', required: true }) }),
    payload: { user: UserRef },
    run: async (ctx, { id }) => ({ user: (await setFollow(ctx, id, follow)).user }),
  });

followMutation('userFollow', 'Makes the caller follow the user. Repeating the request is not an error.', true);
followMutation('userUnfollow', 'Makes the caller unfollow the user. Repeating the request is not an error.', false);
