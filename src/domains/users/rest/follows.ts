import type { Context } from '#platform/context.ts';
import { readPage } from '#platform/paging.ts';
import { integer } from '#rest/params.ts';
import { type Exchange, listRoute, type Route, route } from '#rest/route.ts';
import { type FollowSide, listFollows, setFollow } from '../follows.ts';
import { toUserBasic, userBasicRecord } from '../record.ts';

const tag = 'Users';
const READ_SCOPES = ['api', 'read_api', 'read_user'] as const;
const input = { id: integer({ min: 0 }) };

const listOfSide = (side: FollowSide, summary: string): Route =>
  listRoute({
    path: `/users/:id/${side}`,
    tag,
    summary,
    description: "Answers 404 for another user's private profile.",
    scopes: READ_SCOPES,
    input,
    paging: 'offset',
    item: userBasicRecord,
    run: async (ctx, { id }, page) => {
      const { items, ...rest } = await readPage(await listFollows(ctx, id, side), page);
      return { ...rest, items: items.map((user) => toUserBasic(ctx, user)) };
    },
  });

const follow = async (ctx: Context, id: number, wanted: boolean, http: Exchange) => {
  const { user, changed } = await setFollow(ctx, id, wanted);
  if (!changed) http.setStatus(304);
  return toUserBasic(ctx, user);
};

export const followRoutes: readonly Route[] = [
  listOfSide('followers', 'List the followers of a user'),
  listOfSide('following', 'List the users that a user follows'),
  route({
    method: 'POST',
    path: '/users/:id/follow',
    tag,
    summary: 'Follow a user',
    description: '304 when the caller already follows the user.',
    input,
    response: userBasicRecord,
    run: (ctx, { id }, http) => follow(ctx, id, true, http),
  }),
  route({
    method: 'POST',
    path: '/users/:id/unfollow',
    tag,
    summary: 'Unfollow a user',
    description: '304 when the caller does not follow the user.',
    input,
    response: userBasicRecord,
    run: (ctx, { id }, http) => follow(ctx, id, false, http),
  }),
];
