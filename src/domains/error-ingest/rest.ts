import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { listFailures, listUsage } from './queries.ts';
import { failureRecord, toFailure, toUsage, usageRecord } from './record.ts';

const tag = 'Error tracking';

export const routes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/projects/:id/error_tracking/usage',
    tag,
    summary: 'Get what the client keys of a project have sent',
    description: 'In the last 24 hours, by hour and key. For maintainers.',
    input: { id: idOrPath() },
    response: z.array(usageRecord),
    run: async (ctx, { id }) => (await listUsage(ctx, await getProject(ctx, id))).map(toUsage),
  }),
  listRoute({
    path: '/projects/:id/error_tracking/failures',
    tag,
    summary: 'List reports that could not be digested',
    description: 'The newest first. They are kept for 14 days. For maintainers.',
    input: { id: idOrPath() },
    paging: { keyset: { id: 'integer' }, sorts: ['desc'] },
    item: failureRecord,
    run: async (ctx, { id }, request) => {
      const page = await readPage(listFailures(ctx, await getProject(ctx, id)), request);
      return { ...page, items: page.items.map(toFailure) };
    },
  }),
];
