import { currentPassword } from '#domains/users/record.ts';
import { integer } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { disableTwoFactorOf } from './enrolment.ts';

export const routes = [
  route({
    method: 'PATCH',
    path: '/users/:id/disable_two_factor',
    tag: 'Users',
    summary: "Disable a user's second factor",
    description:
      "For users who lost it. Administrators only; 403 for an administrator's account. 400 when the user has none.",
    admin: true,
    input: { id: integer({ min: 0 }), current_password: currentPassword() },
    response: null,
    run: (ctx, { id, ...proof }) => disableTwoFactorOf(ctx, id, proof),
  }),
];
