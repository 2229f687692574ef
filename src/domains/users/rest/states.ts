import { z } from 'zod';
import { integer } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { STATE_MOVES, type StateMoveName } from '../model.ts';
import { moveUser, rejectUser, unlockUser } from '../states.ts';

const tag = 'Users';

const summaries = {
  block: 'Block a user',
  unblock: 'Unblock a user',
  ban: 'Ban a user',
  unban: 'Unban a user',
  activate: 'Activate a deactivated user',
  deactivate: 'Deactivate a dormant user',
  approve: 'Approve a pending user',
} as const satisfies Record<StateMoveName, string>;

const input = { id: integer({ min: 0 }) };
const done = z.object({ message: z.string() });
const success = { message: 'Success' };

const moveRoute = (move: Exclude<StateMoveName, 'approve'>): Route => {
  const { from, to } = STATE_MOVES[move];
  // The response to a repeated request, as API clients expect it.
  const again = move === 'block' ? null : move !== 'unblock';
  return route({
    method: 'POST',
    path: `/users/:id/${move}`,
    tag,
    summary: summaries[move],
    description: `From ${from.join(', ')} to ${to}; 403 with the reason for an account in another state.`,
    admin: true,
    input,
    response: z.boolean().nullable(),
    run: async (ctx, { id }) => {
      const { moved } = await moveUser(ctx, id, move);
      return moved || again;
    },
  });
};

/** The states of accounts (reference: conventions §8). */
export const stateRoutes: readonly Route[] = [
  moveRoute('block'),
  moveRoute('unblock'),
  moveRoute('ban'),
  moveRoute('unban'),
  moveRoute('activate'),
  moveRoute('deactivate'),
  route({
    method: 'POST',
    path: '/users/:id/approve',
    tag,
    summary: summaries.approve,
    admin: true,
    input,
    response: done,
    run: async (ctx, { id }) => {
      await moveUser(ctx, id, 'approve');
      return success;
    },
  }),
  route({
    method: 'POST',
    path: '/users/:id/reject',
    tag,
    summary: 'Reject a pending user and delete the account',
    admin: true,
    input,
    response: done,
    run: async (ctx, { id }) => {
      await rejectUser(ctx, id);
      return success;
    },
  }),
  route({
    method: 'POST',
    path: '/users/:id/unlock',
    tag,
    summary: 'Unlock a user after too many wrong passwords',
    admin: true,
    input,
    response: z.boolean(),
    run: async (ctx, { id }) => {
      await unlockUser(ctx, id);
      return true;
    },
  }),
];
