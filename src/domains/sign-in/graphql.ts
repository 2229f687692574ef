import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { mutationField } from '#graphql/mutation.ts';
import { disableTwoFactorOf } from './enrolment.ts';

mutationField('userTwoFactorDisable', {
  description:
    'Ends the second factor of somebody who lost it. Administrators only, and not for administrators, oneself among them.',
  input: (t) => ({ id: t.field({ type: 'UserID', required: true }) }),
  payload: { user: UserRef },
  run: async (ctx, { id }) => {
    await disableTwoFactorOf(ctx, id);
    return { user: await loadUser(ctx, id) };
  },
});
