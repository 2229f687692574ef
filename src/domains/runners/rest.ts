import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import { boolean, commaList, integer, oneOf, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { createRunner } from './commands.ts';
import { RUNNER_ACCESS_LEVELS, RUNNER_TYPES } from './model.ts';

export const createdRunnerRecord = z
  .object({
    id: z.int(),
    token: z.string().describe('Shown only once.'),
    token_expires_at: z.string().nullable(),
  })
  .meta({ id: 'CreatedRunner' });

export const routes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/user/runners',
    tag: 'Runners',
    summary: 'Create a runner',
    description:
      'Creates a runner of the instance (administrators), or of a group or project (its owners, if `valid_runner_registrars` allows it). `locked` only affects project runners.',
    scopes: ['create_runner', 'api'],
    input: {
      runner_type: oneOf(RUNNER_TYPES),
      group_id: integer({ min: 1 }).optional(),
      project_id: integer({ min: 1 }).optional(),
      description: text().nullish(),
      maintenance_note: text().nullish(),
      paused: boolean().optional(),
      locked: boolean().optional(),
      run_untagged: boolean().optional(),
      tag_list: commaList(text()).optional(),
      access_level: oneOf(RUNNER_ACCESS_LEVELS).optional(),
      maximum_timeout: integer({ max: 2_147_483_647 }).nullish(),
    },
    response: createdRunnerRecord,
    run: async (ctx, input) => {
      const { id, token, token_expires_at } = await createRunner(ctx, input);
      return { id, token, token_expires_at: isoTime(token_expires_at) };
    },
  }),
];
