import { z } from 'zod';
import { readPage } from '#platform/paging.ts';
import { isoDate } from '#platform/time.ts';
import { date } from '#rest/params.ts';
import { listRoute, type Route } from '#rest/route.ts';
import { listActivities } from '../activities.ts';

const activityRecord = z
  .object({
    username: z.string(),
    last_activity_on: z.string(),
    last_activity_at: z.string().describe('Deprecated: the same day.'),
  })
  .meta({ id: 'UserActivity' });

export const activityRoutes: readonly Route[] = [
  listRoute({
    path: '/user/activities',
    tag: 'Users',
    summary: 'List when people were last about',
    description: 'The longest ago first. People with private profiles are listed for administrators alone.',
    scopes: ['api', 'read_api', 'read_user'],
    input: { from: date().optional().describe('The first day; half a year ago by default.') },
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
