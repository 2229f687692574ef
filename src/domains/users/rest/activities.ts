import { z } from 'zod';
import { readPage } from '#platform/paging.ts';
import { isoDate } from '#platform/time.ts';
import { date } from '#rest/params.ts';
import { listRoute, type Route } from '#rest/route.ts';
import { removedInV5 } from '#rest/v5.ts';
import { listActivities } from '../activities.ts';

const activityRecord = z
  .object({
    username: z.string(),
    last_activity_on: z.string(),
    last_activity_at: removedInV5(z.string().describe('The same day.'), { replacedBy: 'last_activity_on' }),
  })
  .meta({ id: 'UserActivity' });

export const activityRoutes: readonly Route[] = [
  listRoute({
    path: '/user/activities',
    tag: 'Users',
    summary: 'List the last activity of users',
    description: 'Least recent first. Only administrators see users with private profiles.',
    scopes: ['api', 'read_api', 'read_user'],
    input: { from: date().optional().describe('The first day; defaults to half a year ago.') },
    paging: { keyset: { last_activity_on: 'date' }, sorts: ['asc'] },
    item: activityRecord,
    run: async (ctx, { from }, page) => {
      const { items, ...rest } = await readPage(listActivities(ctx, from), page);
      return {
        ...rest,
        items: items.map(({ username, last_activity_on }) => {
          const day = isoDate(last_activity_on);
          return { username, last_activity_on: day, last_activity_at: day };
        }),
      };
    },
  }),
];
