import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { isoTime } from '#platform/time.ts';
import { idOrPath, oneOf } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { listFetches } from '../fetches.ts';
import { scheduleHousekeeping } from '../upkeep.ts';

const tag = 'Projects';

const fetchStatistics = z
  .object({
    fetches: z.object({
      total: z.int(),
      days: z.array(z.object({ count: z.int(), date: z.string() })),
    }),
  })
  .meta({ id: 'ProjectFetchStatistics' });

const storageRecord = z
  .object({ project_id: z.int(), disk_path: z.string(), created_at: z.string(), repository_storage: z.string() })
  .meta({ id: 'ProjectStorage' });

export const upkeepRoutes = [
  route({
    method: 'GET',
    path: '/projects/:id/statistics',
    tag,
    summary: 'Count the fetches of the last 30 days',
    description:
      'Counts clones and fetches over HTTP that transferred objects. Leaves out days without any. Requires the Reporter role.',
    input: { id: idOrPath() },
    response: fetchStatistics,
    run: async (ctx, { id }) => {
      const days = await listFetches(ctx, await getProject(ctx, id));
      const total = days.reduce((sum, { count }) => sum + count, 0);
      return { fetches: { total, days: days.map(({ count, date }) => ({ count, date })) } };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/storage',
    tag,
    summary: 'Get the storage path of the repository of a project',
    admin: true,
    input: { id: idOrPath() },
    response: storageRecord,
    run: async (ctx, { id }) => {
      const project = await getProject(ctx, id);
      return {
        project_id: project.id,
        disk_path: project.disk_path.replace(/\.git$/, ''),
        created_at: isoTime(project.created_at),
        repository_storage: project.repository_storage,
      };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/housekeeping',
    tag,
    summary: 'Repack the repository of a project',
    description:
      'Runs in the background. Concurrent requests run once. Removes objects that have been unreachable for two weeks. Requires the Owner role.',
    input: {
      id: idOrPath(),
      task: oneOf(['eager'])
        .optional()
        .describe(
          'The only task. Immediate pruning is not supported, because a push in progress would lose its objects.',
        ),
    },
    response: z.object({}),
    run: async (ctx, { id }) => {
      await scheduleHousekeeping(ctx, await getProject(ctx, id));
      return {};
    },
  }),
];
