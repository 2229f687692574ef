import { z } from 'zod';
import { toUserBasic, userBasicRecord } from '#domains/users/record.ts';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { idOrPath, text } from '#rest/params.ts';
import { listRoute } from '#rest/route.ts';
import { getProject } from '../queries.ts';
import { listStarrers } from '../stars.ts';

const starrerRecord = z.object({ starred_since: z.string(), user: userBasicRecord }).meta({ id: 'Starrer' });

export const starRoutes = [
  listRoute({
    path: '/projects/:id/starrers',
    tag: 'Projects',
    summary: 'List the users who have starred a project',
    description: 'Latest first. Users whose profile is private to the caller are left out.',
    auth: 'optional',
    paging: 'offset',
    input: { id: idOrPath(), search: text({ max: 255 }).optional() },
    item: starrerRecord,
    run: async (ctx, { id, search }, page) => {
      const { items, ...rest } = await readPage(listStarrers(ctx, await getProject(ctx, id), { search }), page);
      return {
        ...rest,
        items: items.map((row) => ({ starred_since: isoTime(row.starred_since), user: toUserBasic(ctx, row) })),
      };
    },
  }),
];
