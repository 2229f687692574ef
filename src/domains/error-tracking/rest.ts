import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, boolean, idOrPath, integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { createClientKey, deleteClientKey, updateSettings } from './commands.ts';
import { KEY_SCOPES } from './policy.ts';
import { getSettings, listClientKeys } from './queries.ts';
import { clientKeyRecord, settingsRecord, toClientKey, toSettings } from './record.ts';

const tag = 'Error tracking';
const settingsPath = '/projects/:id/error_tracking/settings';
const keysPath = '/projects/:id/error_tracking/client_keys';
const settingsInput = {
  id: idOrPath(),
  active: boolean().optional().describe('Whether errors are taken.'),
  integrated: boolean().optional().describe('Whether errors are stored here. Client keys need it.'),
};

const update = (method: 'PUT' | 'PATCH'): Route =>
  route({
    method,
    path: settingsPath,
    tag,
    summary: 'Change the settings of error tracking',
    input: settingsInput,
    rules: [atLeastOneOf('active', 'integrated')],
    response: settingsRecord,
    run: async (ctx, { id: wanted, ...given }) => {
      const project = await getProject(ctx, wanted);
      return toSettings(project, await updateSettings(ctx, project, given));
    },
  });

export const routes: readonly Route[] = [
  route({
    method: 'GET',
    path: settingsPath,
    tag,
    summary: 'Get the settings of error tracking',
    input: { id: idOrPath() },
    response: settingsRecord,
    run: async (ctx, input) => {
      const project = await getProject(ctx, input.id);
      return toSettings(project, await getSettings(ctx, project));
    },
  }),
  update('PUT'),
  update('PATCH'),
  listRoute({
    path: keysPath,
    tag,
    summary: 'List the client keys of a project',
    scopes: KEY_SCOPES,
    input: { id: idOrPath() },
    paging: { keyset: { id: 'integer' }, sorts: ['asc'] },
    item: clientKeyRecord,
    run: async (ctx, input, request) => {
      const page = await readPage(await listClientKeys(ctx, await getProject(ctx, input.id)), request);
      return { ...page, items: page.items.map((row) => toClientKey(ctx, row)) };
    },
  }),
  route({
    method: 'POST',
    path: keysPath,
    tag,
    summary: 'Create a client key',
    description: 'SDKs report errors to its `sentry_dsn`.',
    input: { id: idOrPath() },
    response: clientKeyRecord,
    run: async (ctx, input) => toClientKey(ctx, await createClientKey(ctx, await getProject(ctx, input.id))),
  }),
  route({
    method: 'DELETE',
    path: `${keysPath}/:key_id`,
    tag,
    summary: 'Delete a client key',
    description: 'Applications that use it are refused from then on.',
    input: { id: idOrPath(), key_id: integer({ min: 1 }) },
    response: null,
    run: async (ctx, input) => {
      await deleteClientKey(ctx, await getProject(ctx, input.id), input.key_id);
    },
  }),
];
