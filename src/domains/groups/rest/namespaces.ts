import { z } from 'zod';
import { readPage } from '#platform/paging.ts';
import { only } from '#platform/values/only.ts';
import { boolean, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { getNamespace } from '../queries.ts';
import { namespaceRecord, toNamespaces } from '../record.ts';
import { findNamespaceNamed, listNamespaces } from '../summaries.ts';

export const namespaceRoutes = [
  listRoute({
    path: '/namespaces',
    tag: 'Namespaces',
    summary: 'List the namespaces of the caller',
    paging: 'offset',
    item: namespaceRecord,
    input: {
      search: text({ max: 255 }).optional(),
      owned_only: boolean().optional(),
      top_level_only: boolean().optional(),
    },
    run: async (ctx, { search, owned_only, top_level_only }, page) => {
      const filter = { search, ownedOnly: owned_only, topLevelOnly: top_level_only };
      const found = await readPage(listNamespaces(ctx, filter), page);
      return { ...found, items: await toNamespaces(ctx, found.items) };
    },
  }),
  route({
    method: 'GET',
    path: '/namespaces/:id',
    tag: 'Namespaces',
    summary: 'Get a namespace',
    input: { id: idOrPath() },
    response: namespaceRecord,
    run: async (ctx, { id }) => only(await toNamespaces(ctx, [await getNamespace(ctx, id)])),
  }),
  route({
    method: 'GET',
    path: '/namespaces/:path/exists',
    tag: 'Namespaces',
    summary: 'Check whether a namespace path exists, and suggest free ones',
    input: { path: text({ max: 255 }), parent_id: integer({ min: 1 }).optional() },
    response: z.object({ exists: z.boolean(), suggests: z.array(z.string()) }).meta({ id: 'NamespaceExists' }),
    run: async (ctx, { path, parent_id }) => {
      const { exists, suggests } = await findNamespaceNamed(ctx, path, parent_id ?? null);
      return { exists, suggests: [...suggests] };
    },
  }),
];
