import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { requireUser } from '#domains/users/policy.ts';
import { getUser } from '#domains/users/queries.ts';
import { today } from '#platform/clock.ts';
import type { Context, Tx } from '#platform/context.ts';
import { forbidden, invalid } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { tokenCreated, tokenRevoked } from './events.ts';
import { ADMINISTRATOR_SCOPES, daysAfter, mayGrant, TOKEN_SCOPES } from './model.ts';
import { getCurrentToken, getToken, type TokenRow, tokenColumns } from './queries.ts';

export interface NewToken {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly description?: string | null | undefined;
  /** `YYYY-MM-DD`, the day at whose beginning it ends; null is never, where the settings allow it; by default as late as they allow. */
  readonly expires_at?: string | null | undefined;
}

export interface CreatedToken extends TokenRow {
  /** The only time that it is seen. */
  readonly token: string;
}

/**
 * Makes a personal access token for a user: for oneself, or by administrators for anyone. Whoever came with a token
 * hands out no scope that this one does not open: neither to himself nor, as an administrator, to somebody else.
 *
 * @throws `forbidden`, `not_found` (User), `invalid` by attribute
 */
export const createToken = async (ctx: Context, userId: number, input: NewToken): Promise<CreatedToken> => {
  const self = requireUser(ctx);
  if (userId !== self && !ctx.actor.isAdmin) throw forbidden();
  const owner = await getUser(ctx, userId);
  const settings = await getSettings(ctx);
  const day = today(ctx.clock);
  const latest = daysAfter(day, settings.max_personal_access_token_lifetime);
  const mayLast = input.expires_at === null && !settings.require_personal_access_token_expiry;
  const expires_at = mayLast ? null : (input.expires_at ?? latest);
  const scopes = [...new Set(input.scopes)];
  const available = TOKEN_SCOPES.filter((scope) => owner.is_admin || !ADMINISTRATOR_SCOPES.has(scope));

  const errors: Record<string, string[]> = {};
  if (input.name.trim() === '') errors.name = ["can't be blank"];
  else if (input.name.length > 255) errors.name = ['is too long (maximum is 255 characters)'];
  if ((input.description?.length ?? 0) > 255) errors.description = ['is too long (maximum is 255 characters)'];
  for (const field of ['name', 'description'] as const) {
    if (input[field]?.includes('\0') || input[field]?.isWellFormed() === false) errors[field] = ['is invalid'];
  }
  if (scopes.length === 0) errors.scopes = ["can't be blank"];
  else if (!scopes.every((scope) => available.some((each) => each === scope))) {
    errors.scopes = ['can only contain available scopes'];
  } else if (!scopes.every((scope) => mayGrant(ctx.actor.scopes, scope))) {
    errors.scopes = ['can only contain what the token in use opens itself'];
  }
  if (expires_at !== null && expires_at <= day) errors.expires_at = ['must be in the future'];
  else if (expires_at !== null && expires_at > latest) errors.expires_at = [`must be on or before ${latest}`];
  if (Object.keys(errors).length > 0) throw invalid(errors);

  const value = settings.personal_access_token_prefix + randomToken();
  const row = await ctx.transaction((tx) => insertToken(tx, { ...input, user_id: userId, scopes, expires_at, value }));
  return { ...row, token: value };
};

interface TokenToInsert extends NewToken {
  readonly user_id: number;
  readonly value: string;
}

/** Stores the digest of a token whose owner and scopes have been settled. */
export const insertToken = async (tx: Tx, input: TokenToInsert): Promise<TokenRow> => {
  const row = await tx.db
    .insertInto('personal_access_tokens')
    .values({
      user_id: input.user_id,
      name: input.name,
      description: input.description ?? null,
      scopes: [...input.scopes],
      digest: digestToken(input.value),
      expires_at: input.expires_at ?? null,
    })
    .returning(tokenColumns)
    .executeTakeFirstOrThrow();
  tx.emit(tokenCreated, { subject: subjectOf(row), user_ids: [row.user_id], payload: described(row) });
  return row;
};

/** Revokes one of the caller's own tokens, or for administrators anyone's, at once. Again is fine. */
export const revokeToken = async (ctx: Context, id: number): Promise<TokenRow> => revoke(ctx, await getToken(ctx, id));

/** Revokes the token that this request came with. */
export const revokeCurrentToken = async (ctx: Context): Promise<TokenRow> => revoke(ctx, await getCurrentToken(ctx));

const revoke = (ctx: Context, { id }: TokenRow): Promise<TokenRow> =>
  ctx.transaction(async (tx) => {
    const row = await tx.db
      .selectFrom('personal_access_tokens')
      .select(tokenColumns)
      .where('id', '=', id)
      .forUpdate()
      .executeTakeFirstOrThrow();
    if (row.revoked) return row;
    await tx.db.updateTable('personal_access_tokens').set({ revoked: sql`true` }).where('id', '=', id).execute();
    tx.emit(tokenRevoked, { subject: subjectOf(row), user_ids: [row.user_id], payload: described(row) });
    return { ...row, revoked: true };
  });

const subjectOf = ({ id }: TokenRow) => ({ type: 'PersonalAccessToken', id });
const described = ({ id, user_id, name, scopes, expires_at }: TokenRow) => ({ id, user_id, name, scopes, expires_at });
