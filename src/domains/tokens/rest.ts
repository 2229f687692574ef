import { requireUser } from '#domains/users/policy.ts';
import { TOKEN_SCOPES } from '#platform/caller/token-scopes.ts';
import { today } from '#platform/clock.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, commaList, date, dateTime, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { createImpersonationToken, createToken, revokeCurrentToken, revokeToken, rotateToken } from './commands.ts';
import { IMPERSONATION_SCOPES } from './model.ts';
import { getCurrentToken, getImpersonationToken, getToken, listImpersonationTokens, listTokens } from './queries.ts';
import {
  createdImpersonationTokenRecord,
  createdTokenRecord,
  impersonationTokenRecord,
  toCreatedToken,
  toImpersonationToken,
  tokenRecord,
  toToken,
} from './record.ts';

const tag = 'Personal access tokens';
const impersonationTag = 'Impersonation tokens';
const READ_USER = ['api', 'read_api', 'read_user'] as const;

const ROTATION =
  'Revokes the token and returns a new one in its place. A request that authenticates with an already rotated token revokes every token that was rotated from it.';

/** The filters of token lists. */
export const tokenFilter = {
  revoked: boolean().optional(),
  state: oneOf(['active', 'inactive']).optional(),
  search: text({ max: 255 }).optional(),
  created_after: dateTime().optional(),
  created_before: dateTime().optional(),
  last_used_after: dateTime().optional(),
  last_used_before: dateTime().optional(),
  expires_after: date().optional(),
  expires_before: date().optional(),
};

export const routes = [
  listRoute({
    path: '/personal_access_tokens',
    tag,
    summary: 'List personal access tokens',
    description: "Lists the caller's own tokens; administrators see everyone's.",
    input: {
      user_id: integer().optional(),
      ...tokenFilter,
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
    method: 'POST',
    path: '/personal_access_tokens/self/rotate',
    tag,
    summary: 'Rotate the token of this request',
    description: ROTATION,
    scopes: ['api', 'self_rotate'],
    input: { expires_at: date().nullish() },
    response: createdTokenRecord,
    run: async (ctx, input) => toCreatedToken(ctx, await rotateToken(ctx, 'current', input)),
  }),
  route({
    method: 'POST',
    path: '/personal_access_tokens/:id/rotate',
    tag,
    summary: 'Rotate a personal access token',
    description: ROTATION,
    input: { id: integer(), expires_at: date().nullish() },
    response: createdTokenRecord,
    run: async (ctx, { id, ...input }) => toCreatedToken(ctx, await rotateToken(ctx, id, input)),
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
    summary: 'Create a personal access token for yourself',
    description: 'Only for the scope `k8s_proxy`. By default it expires at the end of the day.',
    input: {
      name: text(),
      description: text().nullish(),
      scopes: commaList(oneOf(['k8s_proxy'])),
      expires_at: date().nullish(),
    },
    response: createdTokenRecord,
    run: async (ctx, input) => {
      const expires_at = input.expires_at ?? today(ctx.clock);
      return toCreatedToken(ctx, await createToken(ctx, requireUser(ctx), { ...input, expires_at }));
    },
  }),
  listRoute({
    path: '/users/:user_id/impersonation_tokens',
    tag: impersonationTag,
    scopes: READ_USER,
    summary: 'List the impersonation tokens of a user',
    admin: true,
    input: { user_id: integer(), state: oneOf(['all', 'active', 'inactive']).default('all') },
    paging: 'offset',
    item: impersonationTokenRecord,
    run: async (ctx, { user_id, state }, page) => {
      const { items, ...rest } = await readPage(await listImpersonationTokens(ctx, user_id, state), page);
      return { ...rest, items: items.map((row) => toImpersonationToken(ctx, row)) };
    },
  }),
  route({
    method: 'POST',
    path: '/users/:user_id/impersonation_tokens',
    tag: impersonationTag,
    summary: 'Create an impersonation token',
    admin: true,
    input: {
      user_id: integer(),
      name: text(),
      description: text().nullish(),
      scopes: commaList(oneOf(IMPERSONATION_SCOPES)),
      expires_at: date(),
    },
    response: createdImpersonationTokenRecord,
    run: async (ctx, { user_id, ...input }) => {
      const { token, ...row } = await createImpersonationToken(ctx, user_id, input);
      return { ...toImpersonationToken(ctx, row), token };
    },
  }),
  route({
    method: 'GET',
    path: '/users/:user_id/impersonation_tokens/:impersonation_token_id',
    tag: impersonationTag,
    scopes: READ_USER,
    summary: 'Get an impersonation token',
    admin: true,
    input: { user_id: integer(), impersonation_token_id: integer() },
    response: impersonationTokenRecord,
    run: async (ctx, { user_id, impersonation_token_id }) =>
      toImpersonationToken(ctx, await getImpersonationToken(ctx, user_id, impersonation_token_id)),
  }),
  route({
    method: 'DELETE',
    path: '/users/:user_id/impersonation_tokens/:impersonation_token_id',
    tag: impersonationTag,
    summary: 'Revoke an impersonation token',
    admin: true,
    input: { user_id: integer(), impersonation_token_id: integer() },
    response: null,
    run: async (ctx, { user_id, impersonation_token_id }) => {
      await revokeToken(ctx, (await getImpersonationToken(ctx, user_id, impersonation_token_id)).id);
    },
  }),
];
