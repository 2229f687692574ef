import { mutationField } from '#graphql/mutation.ts';
import { UserRef } from '../graphql.ts';
import { STATE_MOVES, type StateMoveName } from '../model.ts';
import { moveUser, rejectUser, unlockUser } from '../states.ts';

const move = (name: StateMoveName): void => {
  const { from, to } = STATE_MOVES[name];
  mutationField(`user${name.charAt(0).toUpperCase()}${name.slice(1)}`, {
    description: `Moves an account from ${from.join(', ')} to ${to}. Administrators only.`,
    input: (t) => ({ id: t.field({ type: 'UserID', required: true }) }),
    payload: { user: UserRef },
    run: async (ctx, { id }) => ({ user: (await moveUser(ctx, id, name)).user }),
  });
};

move('block');
move('unblock');
move('ban');
move('unban');
move('activate');
move('deactivate');
move('approve');

mutationField('userReject', {
  description: 'Rejects an account that is pending approval, and deletes it. Administrators only.',
  input: (t) => ({ id: t.field({ type: 'UserID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await rejectUser(ctx, id);
    return {};
  },
});

mutationField('userUnlock', {
  description: 'Lifts the lock of an account after too many wrong passwords. Administrators only.',
  input: (t) => ({ id: t.field({ type: 'UserID', required: true }) }),
  payload: { user: UserRef },
  run: async (ctx, { id }) => ({ user: await unlockUser(ctx, id) }),
});
