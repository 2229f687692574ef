import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { jobRecord, toJobs } from '../record.ts';
import {
  getResourceGroup,
  listResourceGroups,
  listUpcomingJobs,
  PROCESS_MODES,
  type ResourceGroupRow,
  setProcessMode,
} from '../resource-groups.ts';

const tag = 'Resource groups';
const one = { id: idOrPath(), key: text({ max: 255 }) };

const resourceGroupRecord = z
  .object({
    id: z.int(),
    key: z.string(),
    process_mode: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'ResourceGroup' });

const toResourceGroup = (row: ResourceGroupRow): z.output<typeof resourceGroupRecord> => ({
  id: row.id,
  key: row.key,
  process_mode: row.process_mode,
  created_at: isoTime(row.created_at),
  updated_at: isoTime(row.updated_at),
});

export const resourceGroupRoutes = [
  listRoute({
    path: '/projects/:id/resource_groups',
    tag,
    summary: 'List the resource groups of a project',
    auth: 'optional',
    paging: 'offset',
    input: { id: idOrPath() },
    item: resourceGroupRecord,
    run: async (ctx, { id }, page) => {
      const found = await readPage(listResourceGroups(ctx, await getProject(ctx, id)), page);
      return { ...found, items: found.items.map(toResourceGroup) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/resource_groups/:key',
    tag,
    summary: 'Get a resource group',
    auth: 'optional',
    input: one,
    response: resourceGroupRecord,
    run: async (ctx, { id, key }) => toResourceGroup(await getResourceGroup(ctx, await getProject(ctx, id), key)),
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/resource_groups/:key',
    tag,
    summary: 'Change which job of a resource group runs next',
    input: { ...one, process_mode: oneOf(PROCESS_MODES) },
    response: resourceGroupRecord,
    run: async (ctx, { id, key, process_mode }) =>
      toResourceGroup(await setProcessMode(ctx, await getProject(ctx, id), key, process_mode)),
  }),
  listRoute({
    path: '/projects/:id/resource_groups/:key/upcoming_jobs',
    tag,
    summary: 'List the jobs that wait for the resource, the next one first',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: jobRecord,
    run: async (ctx, { id, key }, page) => {
      const project = await getProject(ctx, id);
      const found = await readPage(await listUpcomingJobs(ctx, project, key), page);
      return { ...found, items: await toJobs(ctx, project, found.items) };
    },
  }),
] satisfies readonly Route[];
