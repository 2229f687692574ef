import { readPage } from '#platform/paging.ts';
import { idOrPath, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { createAlias, deleteAlias } from './commands.ts';
import { getAlias, listAliases } from './queries.ts';
import { aliasRecord } from './record.ts';

const tag = 'Project aliases';

const name = text();

export const routes = [
  listRoute({
    path: '/project_aliases',
    tag,
    summary: 'List project aliases',
    admin: true,
    paging: { keyset: { id: 'integer' }, sorts: ['asc'] },
    item: aliasRecord,
    run: (ctx, _input, page) => readPage(listAliases(ctx), page),
  }),
  route({
    method: 'GET',
    path: '/project_aliases/:name',
    tag,
    summary: 'Get a project alias',
    admin: true,
    input: { name },
    response: aliasRecord,
    run: (ctx, input) => getAlias(ctx, input.name),
  }),
  route({
    method: 'POST',
    path: '/project_aliases',
    tag,
    summary: 'Create a project alias',
    description: 'Git then also finds the repository at `/<name>.git`, for callers who can read the project.',
    admin: true,
    input: { name, project_id: idOrPath().describe('The id or path of the project.') },
    response: aliasRecord,
    run: (ctx, input) => createAlias(ctx, { name: input.name, project: input.project_id }),
  }),
  route({
    method: 'DELETE',
    path: '/project_aliases/:name',
    tag,
    summary: 'Delete a project alias',
    admin: true,
    input: { name },
    response: null,
    run: async (ctx, input) => {
      await deleteAlias(ctx, input.name);
    },
  }),
] satisfies readonly Route[];
