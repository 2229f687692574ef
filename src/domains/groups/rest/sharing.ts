import { date, idOrPath, integer } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { groupDetailRecord, toGroupDetail } from '../record.ts';
import { shareGroup, unshareGroup } from '../shares.ts';

export const sharingRoutes = [
  route({
    method: 'POST',
    path: '/groups/:id/share',
    tag: 'Groups',
    summary: 'Share a group with another group',
    status: 200,
    input: { id: idOrPath(), group_id: integer({ min: 1 }), group_access: integer(), expires_at: date().nullish() },
    response: groupDetailRecord,
    run: async (ctx, { id, group_id, ...share }) =>
      toGroupDetail(ctx, await shareGroup(ctx, id, { id: group_id }, share)),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/share/:group_id',
    tag: 'Groups',
    summary: 'Stop sharing a group with another group',
    input: { id: idOrPath(), group_id: integer({ min: 1 }) },
    response: null,
    run: (ctx, { id, group_id }) => unshareGroup(ctx, id, { id: group_id }),
  }),
];
