import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type FollowSide, listFollowsOf, setFollow } from '../follows.ts';
import { seen, UserConnection, UserRef } from './user.ts';

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

followsField('followers', 'Who follows the user.');
followsField('following', 'Whom the user follows.');

const followMutation = (name: string, description: string, follow: boolean): void =>
  mutationField(name, {
    description,
    input: (t) => ({ id: t.field({ type: 'UserID', required: true }) }),
    payload: { user: UserRef },
    run: async (ctx, { id }) => ({ user: (await setFollow(ctx, id, follow)).user }),
  });

followMutation('userFollow', 'Makes the caller follow the user. Again is fine.', true);
followMutation('userUnfollow', 'Makes the caller follow the user no longer. Again is fine.', false);
