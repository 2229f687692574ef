import { type Selectable, sql } from 'kysely';
import { requireUser } from '#domains/users/policy.ts';
import { getUser } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { PersonalAccessTokens } from '#platform/db/tables.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { badRequest, forbidden, notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import { isUnexpired } from './model.ts';
import { type CredentialOrigin, originOf } from './origins.ts';

const storedColumns = [
  'id',
  'user_id',
  'name',
  'description',
  'scopes',
  'impersonation',
  'revoked',
  'expires_at',
  'last_used_at',
  'created_at',
  'created_by_id',
] as const;

export const tokenColumns = [...storedColumns, originOf('personal_access_tokens')] as const;

/** A token as its owner sees it. Its value is never stored. */
export interface TokenRow extends Pick<Selectable<PersonalAccessTokens>, (typeof storedColumns)[number]> {
  /** The authorization it was created through, or null. */
  readonly origin: CredentialOrigin | null;
}

export interface TokenFilter {
  /** Selects impersonation tokens. Otherwise they are left out. */
  readonly impersonation?: boolean | undefined;
  readonly user_id?: number | undefined;
  readonly revoked?: boolean | undefined;
  readonly state?: 'active' | 'inactive' | undefined;
  readonly search?: string | undefined;
  readonly created_after?: string | undefined;
  readonly created_before?: string | undefined;
  readonly last_used_after?: string | undefined;
  readonly last_used_before?: string | undefined;
  readonly expires_after?: string | undefined;
  readonly expires_before?: string | undefined;
  readonly order_by?: 'id' | 'name' | 'created_at' | undefined;
  readonly sort?: SortDirection | undefined;
}

/**
 * Lists personal access tokens: the caller's own or, for administrators, everyone's or those of `user_id`.
 * Impersonation tokens are a separate list for administrators only.
 *
 * @throws `forbidden` when another caller asks for a user's tokens
 */
export const listTokens = (ctx: Context, filter: TokenFilter): List<TokenRow> => {
  const self = requireUser(ctx);
  if (filter.impersonation && !ctx.actor.isAdmin) throw forbidden();
  const userId = filter.user_id ?? (ctx.actor.isAdmin ? null : self);
  if (userId !== null && userId !== self && !ctx.actor.isAdmin) throw forbidden();
  return matchingTokens(ctx, userId, filter);
};

/** Lists the tokens of a bot. The caller must have checked the permission. */
export const listBotTokens = (
  ctx: Context,
  botId: number,
  filter: Omit<TokenFilter, 'user_id' | 'impersonation'>,
): List<TokenRow> => matchingTokens(ctx, botId, filter);

const matchingTokens = (ctx: Context, userId: number | null, filter: TokenFilter): List<TokenRow> => {
  let query = ctx.db
    .selectFrom('personal_access_tokens')
    .select(tokenColumns)
    .where('impersonation', '=', filter.impersonation ?? false);
  if (userId !== null) query = query.where('user_id', '=', userId);
  if (filter.revoked !== undefined) query = query.where('revoked', '=', filter.revoked);
  const isUsable = sql<boolean>`(not revoked and ${sql.raw(isUnexpired('personal_access_tokens'))})`;
  if (filter.state === 'active') query = query.where(isUsable);
  if (filter.state === 'inactive') query = query.where(sql<boolean>`not ${isUsable}`);
  if (filter.search) query = query.where('name', 'ilike', containing(filter.search));
  for (const name of ['created', 'last_used'] as const) {
    const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
    const column = sql.ref(`${name}_at`);
    if (after) query = query.where(atOrAfter(column, after));
    if (before) query = query.where(atOrBefore(column, before));
  }
  if (filter.expires_after) query = query.where(sql<boolean>`expires_at >= ${filter.expires_after}::date`);
  if (filter.expires_before) query = query.where(sql<boolean>`expires_at <= ${filter.expires_before}::date`);
  const order = filter.order_by ?? 'id';
  const byId: SortKey<TokenRow> = { by: sql.ref('id'), of: (row) => row.id };
  const keys = order === 'id' ? [byId] : [{ by: sql.ref(order), of: (row: TokenRow) => row[order] }, byId];
  return listOf(ctx.db, query, keys, filter.sort ?? 'desc');
};

/** Returns one of the caller's tokens; administrators get anyone's. @throws `not_found` for other tokens */
export const getToken = async (ctx: Pick<Context, 'db' | 'actor'>, id: number): Promise<TokenRow> => {
  const self = requireUser(ctx);
  const token = await ctx.db
    .selectFrom('personal_access_tokens')
    .select(tokenColumns)
    .where('id', '=', id)
    .executeTakeFirst();
  if (!token || !(ctx.actor.isAdmin || (token.user_id === self && !token.impersonation))) {
    throw notFound('PersonalAccessToken');
  }
  return token;
};

/** Lists the impersonation tokens of a user. Administrators only. @throws `forbidden`, `not_found` (User) */
export const listImpersonationTokens = async (
  ctx: Context,
  userId: number,
  state: 'all' | 'active' | 'inactive',
): Promise<List<TokenRow>> => {
  const { id } = await getUser(ctx, userId);
  return listTokens(ctx, { user_id: id, impersonation: true, state: state === 'all' ? undefined : state });
};

/** Returns one impersonation token. Administrators only. @throws `forbidden`, `not_found` (ImpersonationToken) */
export const getImpersonationToken = async (ctx: Context, userId: number, id: number): Promise<TokenRow> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  const token = await ctx.db
    .selectFrom('personal_access_tokens')
    .select(tokenColumns)
    .where('id', '=', id)
    .where('user_id', '=', userId)
    .where('impersonation', '=', true)
    .executeTakeFirst();
  if (!token) throw notFound('Impersonation Token');
  return token;
};

/**
 * Returns a token of the bot. The caller must have checked the permission.
 *
 * @throws `not_found` (PersonalAccessToken)
 */
export const getBotToken = async (ctx: Pick<Context, 'db'>, botId: number, id: number): Promise<TokenRow> => {
  const token = await ctx.db
    .selectFrom('personal_access_tokens')
    .select(tokenColumns)
    .where('id', '=', id)
    .where('user_id', '=', botId)
    .where('impersonation', '=', false)
    .executeTakeFirst();
  if (!token) throw notFound('PersonalAccessToken');
  return token;
};

/** Returns the token of this request. @throws `bad_request` when there is none */
export const getCurrentToken = async (ctx: Context): Promise<TokenRow> => {
  const { credential } = ctx.actor;
  if (credential?.kind !== 'token') throw badRequest('the request was not authenticated with a personal access token');
  return ctx.db
    .selectFrom('personal_access_tokens')
    .select(tokenColumns)
    .where('id', '=', credential.id)
    .executeTakeFirstOrThrow();
};
