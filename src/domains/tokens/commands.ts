import { type RawBuilder, sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import type { Settings } from '#domains/settings/registry.ts';
import { isInternal } from '#domains/users/model.ts';
import { isApplication, requireUser } from '#domains/users/policy.ts';
import { getUser, type UserRow } from '#domains/users/queries.ts';
import { TOKEN_SCOPES } from '#platform/caller/token-scopes.ts';
import { today } from '#platform/clock.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, forbidden, insufficientScope, invalid, requireValid, tooLong } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { isStorable } from '#platform/values/storable.ts';
import { tokenCreated, tokenRevoked } from './events.ts';
import { ADMINISTRATOR_SCOPES, daysAfter, IMPERSONATION_SCOPES, isActive, mayGrant } from './model.ts';
import { provenance } from './origins.ts';
import { getBotToken, getCurrentToken, getToken, type TokenRow, tokenColumns } from './queries.ts';

export interface NewToken {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly description?: string | null | undefined;
  /**
   * `YYYY-MM-DD`. The token works to the end of this day, in UTC. Null means never, if the settings allow it. Defaults to the
   * latest day that the settings allow.
   */
  readonly expires_at?: string | null | undefined;
}

export interface CreatedToken extends TokenRow {
  /** Returned only here. */
  readonly token: string;
}

/**
 * Creates a personal access token for the caller or, for administrators, for any user. A caller with a token cannot
 * grant a scope that this token does not have. An OAuth application cannot create a token for its own user, except for
 * the Kubernetes proxy, and needs the scope `sudo` to create one for another user.
 *
 * @throws `forbidden`, `not_found` (User), `invalid` by attribute
 */
export const createToken = async (ctx: Context, userId: number, input: NewToken): Promise<CreatedToken> => {
  const self = requireUser(ctx);
  if (userId !== self && !ctx.actor.isAdmin) throw forbidden();
  if (wouldOutlive(ctx, userId) && !input.scopes.every((scope) => scope === 'k8s_proxy')) {
    throw invalid({ scopes: ['can only be k8s_proxy when an application requests the token'] });
  }
  const owner = await getUser(ctx, userId);
  refuseInternal(owner);
  requireSudoOfApplication(ctx, owner);
  const settings = await getSettings(ctx);
  if (settings.disable_personal_access_tokens && !owner.is_admin) throw forbidden(DISABLED);
  // Without admin mode, administrators cannot get into it by a new token.
  const mayHoldAll = owner.is_admin && ctx.actor.isAdmin;
  const available = TOKEN_SCOPES.filter((scope) => mayHoldAll || !ADMINISTRATOR_SCOPES.has(scope));
  return insertChecked(ctx, owner.id, input, { settings, available, impersonation: false });
};

/**
 * Requires the scope `sudo` when an application creates a token for another person on behalf of an administrator.
 * Without it the administrator has not allowed the application to act as other users. Service accounts are exempt.
 *
 * @throws `insufficient_scope`
 */
const requireSudoOfApplication = (ctx: Context, owner: Pick<UserRow, 'id' | 'user_type'>): void => {
  if (!isApplication(ctx) || owner.id === ctx.actor.userId || owner.user_type === 'service_account') return;
  if (!ctx.actor.scopes?.has('sudo')) throw insufficientScope(['sudo']);
};

/**
 * Whether an application would get a token of the user it acts for. That token would survive the revocation or expiry
 * of the application's own token.
 */
const wouldOutlive = ({ actor: { credential, userId } }: Context, ownerId: number): boolean =>
  credential?.kind === 'oauth_token' && ownerId === userId;

const OUTLIVES = 'an application cannot take over a token that would outlive its own';

/** Creates a token for a bot. The caller must have checked the permission. @throws `invalid` by attribute */
export const createBotToken = async (ctx: Context, botId: number, input: NewToken): Promise<CreatedToken> => {
  const settings = await getSettings(ctx);
  if (settings.disable_personal_access_tokens) throw forbidden(DISABLED);
  const available = TOKEN_SCOPES.filter((scope) => !ADMINISTRATOR_SCOPES.has(scope));
  return insertChecked(ctx, botId, input, { settings, available, impersonation: false });
};

/**
 * Creates a token with which administrators act as the user. The user does not see it (specification 2 §4.1).
 *
 * @throws `forbidden`, also when the setting `impersonation_enabled` is off, `not_found` (User), `invalid` by attribute
 */
export const createImpersonationToken = async (
  ctx: Context,
  userId: number,
  input: NewToken,
): Promise<CreatedToken> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  const owner = await getUser(ctx, userId);
  refuseInternal(owner);
  requireSudoOfApplication(ctx, owner);
  const settings = await getSettings(ctx);
  if (!settings.impersonation_enabled) throw forbidden('impersonation is disabled');
  return insertChecked(ctx, owner.id, input, { settings, available: IMPERSONATION_SCOPES, impersonation: true });
};

/** Nobody may act as an account of the hub itself, such as the ghost. @throws `forbidden` */
const refuseInternal = (owner: Pick<UserRow, 'user_type'>): void => {
  if (isInternal(owner)) throw forbidden('Internal accounts have no tokens');
};

const DISABLED = 'personal access tokens are disabled';

const insertChecked = async (
  ctx: Context,
  user_id: number,
  input: NewToken,
  rules: {
    readonly settings: Settings;
    readonly available: readonly string[];
    readonly impersonation: boolean;
  },
): Promise<CreatedToken> => {
  const { settings, available, impersonation } = rules;
  const { expires_at, problem } = await lifetimeOf(ctx, settings, user_id, input.expires_at);
  const scopes = [...new Set(input.scopes)];

  const errors: Record<string, string[]> = {};
  if (input.name.trim() === '') errors.name = ["can't be blank"];
  else if (isLongerThan(input.name, 255)) errors.name = [tooLong(255)];
  if (isLongerThan(input.description ?? '', 255)) errors.description = [tooLong(255)];
  for (const field of ['name', 'description'] as const) {
    if (!isStorable(input[field] ?? '')) errors[field] = ['is invalid'];
  }
  if (scopes.length === 0) errors.scopes = ["can't be blank"];
  else if (!scopes.every((scope) => available.includes(scope))) {
    errors.scopes = ['can only contain available scopes'];
  } else if (!scopes.every((scope) => mayGrant(ctx.actor, scope))) {
    errors.scopes = ['can only contain scopes of the token in use'];
  }
  if (problem !== null) errors.expires_at = [problem];
  requireValid(errors);

  const value = settings.personal_access_token_prefix + randomToken();
  const row = await ctx.transaction((tx) =>
    insertToken(tx, { ...input, user_id, scopes, expires_at, value, impersonation }),
  );
  return { ...row, token: value };
};

/**
 * Decides when a new token of the user expires. Null means never, if the settings allow it. Undefined means `days` from
 * today, at most the longest lifetime that the settings allow, which is also the default. `problem` says why a
 * requested day is refused.
 */
const lifetimeOf = async (
  ctx: Context,
  settings: Settings,
  userId: number,
  wanted: string | null | undefined,
  days: number = settings.max_personal_access_token_lifetime,
): Promise<{ readonly expires_at: string | null; readonly problem: string | null }> => {
  const day = today(ctx.clock);
  const latest = daysAfter(day, settings.max_personal_access_token_lifetime);
  const usual = daysAfter(day, Math.min(days, settings.max_personal_access_token_lifetime));
  const mayLast = wanted === null && !(await mustExpire(ctx, settings, userId));
  const expires_at = mayLast ? null : (wanted ?? usual);
  if (expires_at === null) return { expires_at, problem: null };
  const problem =
    expires_at < day ? 'cannot be a date in the past' : expires_at > latest ? `must be on or before ${latest}` : null;
  return { expires_at, problem };
};

/**
 * Whether tokens of the user must expire. For a service account its group decides, or the settings if it has no group.
 */
const mustExpire = async (ctx: Context, settings: Settings, userId: number): Promise<boolean> => {
  const { rows } = await sql<{ user_type: string; enforced: boolean | null }>`
    select u.user_type, n.service_access_tokens_expiration_enforced as enforced
    from users u left join namespaces n on n.id = u.provisioned_by_group_id
    where u.id = ${userId}`.execute(ctx.db);
  if (rows[0]?.user_type !== 'service_account') return settings.require_personal_access_token_expiry;
  return rows[0].enforced ?? settings.service_access_tokens_expiration_enforced;
};

interface TokenToInsert extends NewToken {
  readonly user_id: number;
  readonly value: string;
  readonly impersonation?: boolean;
  /** The family of the token that this one replaces. */
  readonly family_id?: string;
}

/** Stores the digest of a token. The caller has decided on owner and scopes. */
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
      impersonation: input.impersonation ?? false,
      ...(await provenance(tx)),
      ...(input.family_id === undefined ? {} : { family_id: input.family_id }),
    })
    .returning(tokenColumns)
    .executeTakeFirstOrThrow();
  tx.emit(tokenCreated, tokenEvent(row));
  return row;
};

/**
 * Revokes one of the caller's tokens at once; administrators can revoke anyone's. Repeating the request is not an
 * error.
 */
export const revokeToken = async (ctx: Context, id: number): Promise<TokenRow> => revoke(ctx, await getToken(ctx, id));

/**
 * Revokes a token of a bot. The caller must have checked the permission. Repeating it is not an error.
 *
 * @throws `not_found` (PersonalAccessToken)
 */
export const revokeBotToken = async (ctx: Context, botId: number, id: number): Promise<TokenRow> =>
  revoke(ctx, await getBotToken(ctx, botId, id));

/** Revokes the token of this request. */
export const revokeCurrentToken = async (ctx: Context): Promise<TokenRow> => revoke(ctx, await getCurrentToken(ctx));

const revoke = (ctx: Context, { id }: TokenRow): Promise<TokenRow> =>
  ctx.transaction(async (tx) => {
    const row = await lockToken(tx, id);
    if (row.revoked) return row;
    await tx.db
      .updateTable('personal_access_tokens')
      .set({ revoked: true, revoked_at: sql`now()` })
      .where('id', '=', id)
      .execute();
    tx.emit(tokenRevoked, tokenEvent(row));
    return { ...row, revoked: true };
  });

const ROTATED_TOKEN_DAYS = 7;

/**
 * Replaces a token with a new one of the same name, scopes and user, and revokes the old one. Without `expires_at` the
 * new token expires in a week. The new token cannot have more scopes than the token in use, unless that is the token
 * being rotated.
 *
 * @throws `not_found` (PersonalAccessToken), `forbidden`, `bad_request` when it is revoked or expired, `invalid`
 */
export const rotateToken = async (
  ctx: Context,
  which: number | 'current',
  wanted: { readonly expires_at?: string | null | undefined },
): Promise<CreatedToken> => {
  const row = which === 'current' ? await getCurrentToken(ctx) : await getToken(ctx, which);
  return rotate(ctx, row, wanted);
};

/** Rotates a token of a bot. The caller must have checked the permission. @throws as `rotateToken` */
export const rotateBotToken = async (
  ctx: Context,
  botId: number,
  id: number,
  wanted: { readonly expires_at?: string | null | undefined },
): Promise<CreatedToken> => rotate(ctx, await getBotToken(ctx, botId, id), wanted);

const rotate = async (
  ctx: Context,
  { id, user_id }: TokenRow,
  wanted: { readonly expires_at?: string | null | undefined },
): Promise<CreatedToken> => {
  if (isApplication(ctx)) requireSudoOfApplication(ctx, await getUser(ctx, user_id));
  const settings = await getSettings(ctx);
  const { expires_at, problem } = await lifetimeOf(ctx, settings, user_id, wanted.expires_at, ROTATED_TOKEN_DAYS);
  if (problem !== null) throw invalid({ expires_at: [problem] });
  const value = settings.personal_access_token_prefix + randomToken();
  return ctx.transaction(async (tx) => {
    // Comes first: code that ends the authorization locks it before its tokens.
    await provenance(tx);
    await lockFamilyOf(tx, id);
    const row = await lockToken(tx, id);
    const { credential } = ctx.actor;
    const isOwn = credential?.kind === 'token' && credential.id === id;
    // With sudo the token belongs to the administrator, and the request must not change it in another user's name.
    if (isOwn && row.user_id !== ctx.actor.userId) throw forbidden();
    if (wouldOutlive(ctx, row.user_id)) throw forbidden(OUTLIVES);
    if (!isOwn && !row.scopes.every((scope) => mayGrant(ctx.actor, scope))) throw forbidden(WIDER);
    if (!isActive(row, today(ctx.clock))) throw badRequest('the token is revoked or expired');
    await tx.db
      .updateTable('personal_access_tokens')
      .set({ revoked: true, revoked_at: sql`now()`, rotated_at: sql`now()` })
      .where('id', '=', id)
      .execute();
    tx.emit(tokenRevoked, tokenEvent(row));
    const made = await insertToken(tx, { ...row, expires_at, value });
    return { ...made, token: value };
  });
};

const WIDER = 'the token has more scopes than the token in use';

/**
 * Revokes all tokens of a rotation family. Call it when somebody tries to rotate an already rotated token: either that
 * token or the newest one has been stolen.
 */
export const revokeFamily = (ctx: Context, familyId: string): Promise<void> =>
  ctx.transaction(async (tx) => {
    await lockFamily(tx, familyId);
    await revokeAll(tx, sql<boolean>`family_id = ${familyId}`);
  });

/**
 * Keeps the tokens of the family from being rotated until the transaction ends. A rotation that is not committed would
 * leave a token that a revocation of the family does not see.
 */
const lockFamily = async ({ db }: Tx, familyId: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`millrace:token-family:${familyId}`}, 0))`.execute(db);
};

const lockFamilyOf = async (tx: Tx, id: number): Promise<void> => {
  const { family_id } = await tx.db
    .selectFrom('personal_access_tokens')
    .select('family_id')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  await lockFamily(tx, family_id);
};

/** Revokes all tokens that were created through the authorizations. */
export const revokeMadeThrough = (tx: Tx, originIds: readonly string[]): Promise<void> =>
  revokeAll(tx, sql<boolean>`origin_id = any (${originIds}::uuid[])`);

const revokeAll = async (tx: Tx, condition: RawBuilder<boolean>): Promise<void> => {
  const rows = await tx.db
    .updateTable('personal_access_tokens')
    .set({ revoked: true, revoked_at: sql`now()` })
    .where(condition)
    .where('revoked', '=', false)
    .returning(tokenColumns)
    .execute();
  for (const row of rows) tx.emit(tokenRevoked, tokenEvent(row));
};

const lockToken = (tx: Tx, id: number) =>
  tx.db
    .selectFrom('personal_access_tokens')
    .select([...tokenColumns, 'family_id'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirstOrThrow();

/** Only administrators receive the events of impersonation tokens. */
const tokenEvent = ({ id, user_id, name, scopes, expires_at, impersonation, created_by_id, origin }: TokenRow) => ({
  subject: { type: 'PersonalAccessToken', id },
  user_ids: impersonation ? [] : [user_id],
  payload: { id, user_id, name, scopes, expires_at, created_by_id, origin },
});
