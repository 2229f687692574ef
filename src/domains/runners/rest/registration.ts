import { z } from 'zod';
import { idOrPath } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { resetRegistrationToken } from '../registration.ts';

const tag = 'Runners';
const description =
  'The old token ends, and registered runners stay. While the setting `allow_runner_registration_token` is on.';

const registrationTokenRecord = z
  .object({ token: z.string().describe('Shown only once.') })
  .meta({ id: 'RegistrationToken' });

export const runnerRegistrationRoutes = [
  route({
    method: 'POST',
    path: '/runners/reset_registration_token',
    tag,
    summary: 'Replace the registration token of the instance',
    description,
    admin: true,
    input: {},
    response: registrationTokenRecord,
    run: async (ctx) => ({ token: await resetRegistrationToken(ctx, { kind: 'instance' }) }),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/runners/reset_registration_token',
    tag,
    summary: 'Replace the registration token of a group',
    description,
    input: { id: idOrPath() },
    response: registrationTokenRecord,
    run: async (ctx, { id }) => ({ token: await resetRegistrationToken(ctx, { kind: 'group', id }) }),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/runners/reset_registration_token',
    tag,
    summary: 'Replace the registration token of a project',
    description,
    input: { id: idOrPath() },
    response: registrationTokenRecord,
    run: async (ctx, { id }) => ({ token: await resetRegistrationToken(ctx, { kind: 'project', id }) }),
  }),
] satisfies readonly Route[];
