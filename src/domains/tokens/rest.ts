import { requireUser } from '#domains/users/policy.ts';
import { today } from '#platform/clock.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, commaList, date, dateTime, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { createToken, revokeCurrentToken, revokeToken } from './commands.ts';
import { daysAfter, TOKEN_SCOPES } from './model.ts';
import { getCurrentToken, getToken, listTokens } from './queries.ts';
import { createdTokenRecord, toCreatedToken, tokenRecord, toToken } from './record.ts';

const tag = 'Personal access tokens';

export const routes = [
  listRoute({
    path: '/personal_access_tokens',
    tag,
    summary: 'List personal access tokens',
    description: "The caller's own; for administrators everyone's.",
    input: {
      user_id: integer().optional(),
      revoked: boolean().optional(),
      state: oneOf(['active', 'inactive']).optional(),
      search: text({ max: 255 }).optional(),
      created_after: dateTime().optional(),
      created_before: dateTime().optional(),
      last_used_after: dateTime().optional(),
      last_used_before: dateTime().optional(),
      expires_after: date().optional(),
      expires_before: date().optional(),
    },
    paging: 'offset',
    item: tokenRecord,
    run: async (ctx, filter, page) => {
      const { items, ...rest } = await readPage(listTokens(ctx, filter), page);
      return { ...rest, items: items.map((row) => toToken(ctx, row)) };
    },
  }),
  route({
    method: 'GET',
    path: '/personal_access_tokens/self',
    tag,
    summary: 'Get the token of this request',
    scopes: [],
    response: tokenRecord,
    run: async (ctx) => toToken(ctx, await getCurrentToken(ctx)),
  }),
  route({
    method: 'DELETE',
    path: '/personal_access_tokens/self',
    tag,
    summary: 'Revoke the token of this request',
    scopes: [],
    response: null,
    run: async (ctx) => {
      await revokeCurrentToken(ctx);
    },
  }),
  route({
    method: 'GET',
    path: '/personal_access_tokens/:id',
    tag,
    summary: 'Get a personal access token',
    input: { id: integer() },
    response: tokenRecord,
    run: async (ctx, { id }) => toToken(ctx, await getToken(ctx, id)),
  }),
  route({
    method: 'DELETE',
    path: '/personal_access_tokens/:id',
    tag,
    summary: 'Revoke a personal access token',
    input: { id: integer() },
    response: null,
    run: async (ctx, { id }) => {
      await revokeToken(ctx, id);
    },
  }),
  route({
    method: 'POST',
    path: '/users/:user_id/personal_access_tokens',
    tag,
    summary: 'Create a personal access token for a user',
    admin: true,
    input: {
      user_id: integer(),
      name: text(),
      description: text().nullish(),
      scopes: commaList(oneOf(TOKEN_SCOPES)),
      expires_at: date().nullish(),
    },
    response: createdTokenRecord,
    run: async (ctx, { user_id, ...input }) => toCreatedToken(ctx, await createToken(ctx, user_id, input)),
  }),
  route({
    method: 'POST',
    path: '/user/personal_access_tokens',
    tag,
    summary: 'Create a personal access token for oneself',
    description: 'For the scope `k8s_proxy` alone; by default it ends with the day.',
    input: {
      name: text(),
      description: text().nullish(),
      scopes: commaList(oneOf(['k8s_proxy'])),
      expires_at: date().nullish(),
    },
    response: createdTokenRecord,
    run: async (ctx, input) => {
      const expires_at = input.expires_at ?? daysAfter(today(ctx.clock), 1);
      return toCreatedToken(ctx, await createToken(ctx, requireUser(ctx), { ...input, expires_at }));
    },
  }),
];
