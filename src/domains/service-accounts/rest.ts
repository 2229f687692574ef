import { z } from 'zod';
import { createdTokenRecord, toCreatedToken, tokenRecord, toToken } from '#domains/tokens/record.ts';
import { tokenFilter } from '#domains/tokens/rest.ts';
import type { UserRow } from '#domains/users/queries.ts';
import { TOKEN_SCOPES } from '#platform/caller/token-scopes.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, commaList, date, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  addServiceAccount,
  changeServiceAccount,
  createServiceAccountToken,
  removeServiceAccount,
  revokeServiceAccountToken,
  rotateServiceAccountToken,
} from './commands.ts';
import { listServiceAccounts, listServiceAccountTokens, SERVICE_ACCOUNT_ORDERS } from './queries.ts';

const tag = 'Service accounts';

const serviceAccountRecord = z
  .object({
    id: z.int(),
    username: z.string(),
    name: z.string(),
    email: z.string(),
    public_email: z.string().nullable(),
  })
  .meta({ id: 'ServiceAccount' });

const toRecord = ({ id, username, name, email, public_email }: UserRow): z.output<typeof serviceAccountRecord> => ({
  id,
  username,
  name,
  email,
  public_email: public_email || null,
});

const attributes = { name: text().optional(), username: text().optional(), email: text().optional() };
const order = {
  order_by: oneOf(SERVICE_ACCOUNT_ORDERS).default('id'),
  sort: oneOf(['asc', 'desc']).default('desc'),
};
const account = { id: idOrPath(), user_id: integer({ min: 1 }) };
const token = { ...account, token_id: integer({ min: 1 }) };

const EXPIRY =
  'Without `expires_at` the token lasts as long as the settings allow. An empty value means never, if `service_access_tokens_expiration_enforced` of the group is off.';

const changeRoute = (method: 'PATCH' | 'PUT'): Route =>
  route({
    method,
    path: '/groups/:id/service_accounts/:user_id',
    tag,
    summary: 'Change a service account of a group',
    input: { ...account, ...attributes },
    response: serviceAccountRecord,
    run: async (ctx, { id, user_id, ...changes }) => toRecord(await changeServiceAccount(ctx, id, user_id, changes)),
  });

export const routes: readonly Route[] = [
  listRoute({
    path: '/groups/:id/service_accounts',
    tag,
    summary: 'List the service accounts of a top-level group',
    input: { id: idOrPath(), ...order },
    paging: 'offset',
    item: serviceAccountRecord,
    run: async (ctx, { id, ...filter }, page) => {
      const { items, ...rest } = await readPage(await listServiceAccounts(ctx, id, filter), page);
      return { ...rest, items: items.map(toRecord) };
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/service_accounts',
    tag,
    summary: 'Create a service account of a top-level group',
    description:
      'Nobody can sign in with it; it authenticates with tokens. Attributes that are not given are generated.',
    input: { id: idOrPath(), ...attributes },
    response: serviceAccountRecord,
    run: async (ctx, { id, ...input }) => toRecord(await addServiceAccount(ctx, id, input)),
  }),
  changeRoute('PATCH'),
  changeRoute('PUT'),
  route({
    method: 'DELETE',
    path: '/groups/:id/service_accounts/:user_id',
    tag,
    summary: 'Delete a service account of a group',
    description:
      'Its contributions move to the ghost user. With `hard_delete` they are deleted, and so are the groups that nobody else owns. Without it, 409 while it is the only owner of a group.',
    refusals: MODIFIED,
    input: { ...account, hard_delete: boolean().default(false) },
    response: null,
    run: (ctx, { id, user_id, hard_delete }, http) =>
      removeServiceAccount(ctx, id, user_id, { hardDelete: hard_delete, unchangedSince: unmodifiedSince(http) }),
  }),
  listRoute({
    path: '/groups/:id/service_accounts/:user_id/personal_access_tokens',
    tag,
    summary: 'List the tokens of a service account',
    input: {
      ...account,
      ...tokenFilter,
    },
    paging: 'offset',
    item: tokenRecord,
    run: async (ctx, { id, user_id, ...filter }, page) => {
      const { items, ...rest } = await readPage(await listServiceAccountTokens(ctx, id, user_id, filter), page);
      return { ...rest, items: items.map((row) => toToken(ctx, row)) };
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/service_accounts/:user_id/personal_access_tokens',
    tag,
    summary: 'Create a token of a service account',
    description: EXPIRY,
    input: {
      ...account,
      name: text(),
      description: text().nullish(),
      scopes: commaList(oneOf(TOKEN_SCOPES)),
      expires_at: date().nullish(),
    },
    response: createdTokenRecord,
    run: async (ctx, { id, user_id, ...input }) =>
      toCreatedToken(ctx, await createServiceAccountToken(ctx, id, user_id, input)),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/service_accounts/:user_id/personal_access_tokens/:token_id/rotate',
    tag,
    summary: 'Rotate a token of a service account',
    description: 'Revokes the token and returns a new one in its place, which expires in a week by default.',
    input: { ...token, expires_at: date().nullish() },
    response: createdTokenRecord,
    run: async (ctx, { id, user_id, token_id, ...wanted }) =>
      toCreatedToken(ctx, await rotateServiceAccountToken(ctx, id, user_id, token_id, wanted)),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/service_accounts/:user_id/personal_access_tokens/:token_id',
    tag,
    summary: 'Revoke a token of a service account',
    input: token,
    response: null,
    run: async (ctx, { id, user_id, token_id }) => {
      await revokeServiceAccountToken(ctx, id, user_id, token_id);
    },
  }),
  listRoute({
    path: '/service_accounts',
    tag,
    summary: 'List the service accounts of the instance',
    admin: true,
    input: order,
    paging: 'offset',
    item: serviceAccountRecord,
    run: async (ctx, filter, page) => {
      const { items, ...rest } = await readPage(await listServiceAccounts(ctx, null, filter), page);
      return { ...rest, items: items.map(toRecord) };
    },
  }),
  route({
    method: 'POST',
    path: '/service_accounts',
    tag,
    summary: 'Create a service account of the instance',
    description: 'Administrators create its tokens with `POST /users/:user_id/personal_access_tokens`.',
    admin: true,
    input: attributes,
    response: serviceAccountRecord,
    run: async (ctx, input) => toRecord(await addServiceAccount(ctx, null, input)),
  }),
  route({
    method: 'PATCH',
    path: '/service_accounts/:user_id',
    tag,
    summary: 'Change a service account of the instance',
    admin: true,
    input: { user_id: integer({ min: 1 }), ...attributes },
    response: serviceAccountRecord,
    run: async (ctx, { user_id, ...changes }) => toRecord(await changeServiceAccount(ctx, null, user_id, changes)),
  }),
];
