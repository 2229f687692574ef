import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { ADMINISTRATOR_SCOPES } from '#domains/tokens/model.ts';
import { checkPassword } from '#domains/users/credentials.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import type { ApplicationRow } from './applications.ts';
import { pollDevice } from './device.ts';
import { makeIdToken } from './identity.ts';
import { OAUTH_SCOPES, requestedScopes } from './model.ts';
import { verifies } from './pkce.ts';
import { invalidGrant, invalidScope, OAuthError } from './protocol-error.ts';
import { issueTokens, lockAuthorization, revokeFamily, scopesLeft, type TokenResponse } from './tokens.ts';

/**
 * Redeems a code (RFC 6749 §4.1.3). This works once, within ten minutes, for the application that it was issued to,
 * with the redirect URI and verifier of the request. A code that is used twice was stolen, so all tokens issued from it
 * are revoked.
 *
 * @throws OAuthError `invalid_grant`
 */
export const redeemCode = async (
  ctx: Context,
  application: ApplicationRow,
  {
    code,
    redirectUri,
    verifier,
  }: { readonly code: string; readonly redirectUri: string; readonly verifier: string | null },
): Promise<TokenResponse> => {
  // A refusal is returned rather than thrown, so that the revocation commits.
  const tokens = await ctx.transaction(async (tx): Promise<TokenResponse | null> => {
    const found = await findGrant(tx, code);
    if (!found || found.application_id !== application.id) return null;
    await lockAuthorization(tx, found);
    const grant = (await findGrant(tx, code)) ?? found;
    if (grant.used) {
      await revokeFamily(tx, grant.family_id, 'reuse');
      return null;
    }
    if (grant.expired || !grant.active || grant.redirect_uri !== redirectUri) return null;
    if (grant.code_challenge === null ? verifier !== null : !verifies(verifier ?? '', grant.code_challenge))
      return null;
    const scopes = await scopesLeft(tx, application.id, grant.scopes);
    if (scopes.length === 0) return null;
    await tx.db.updateTable('oauth_grants').set({ used_at: sql`now()` }).where('id', '=', grant.id).execute();
    const issued = await issueTokens(tx, {
      applicationId: application.id,
      userId: grant.user_id,
      scopes,
      refreshable: true,
      familyId: grant.family_id,
      codeChallenge: grant.code_challenge,
      redirectUri: grant.redirect_uri,
    });
    return withIdToken(tx, application, issued, {
      userId: grant.user_id,
      scopes,
      nonce: grant.nonce,
      authTime: grant.auth_time,
    });
  });
  if (!tokens) throw invalidGrant();
  return tokens;
};

/**
 * Exchanges a refresh token for a new pair and revokes the old pair (RFC 6749 §6). A token that was already exchanged
 * was stolen, so the whole family is revoked. If two exchanges race, one wins. The other is refused without revocation,
 * because a client that retries after a network error does the same.
 *
 * A public client may send the verifier of its authorization request again, and must do so when the setting
 * `oauth_refresh_requires_code_verifier` is on. A wrong verifier is always refused.
 *
 * @throws OAuthError `invalid_grant`, `invalid_scope`
 */
export const refreshTokens = async (
  ctx: Context,
  application: ApplicationRow,
  sent: {
    readonly refreshToken: string;
    readonly redirectUri: string | null;
    readonly verifier: string | null;
    readonly scope: string | null;
  },
): Promise<TokenResponse> => {
  const { oauth_refresh_requires_code_verifier: verifierNeeded } = await getSettings(ctx);
  const tokens = await ctx.transaction(async (tx): Promise<TokenResponse | null> => {
    const found = await findRefreshable(tx, sent.refreshToken);
    if (!found || found.application_id !== application.id) return null;
    await lockAuthorization(tx, found);
    const old = (await findRefreshable(tx, sent.refreshToken)) ?? found;
    if (old.refreshed && !old.just_now) await revokeFamily(tx, old.family_id, 'reuse');
    if (old.refreshed || old.revoked || !old.active) return null;
    if (sent.redirectUri !== null && sent.redirectUri !== old.redirect_uri) return null;
    if (sent.verifier !== null) {
      if (old.code_challenge === null || !verifies(sent.verifier, old.code_challenge)) return null;
    } else if (verifierNeeded && !application.confidential && old.code_challenge !== null) {
      throw invalidGrant('The code_verifier of the authorization request is missing.');
    }
    const left = await scopesLeft(tx, application.id, old.scopes);
    const scopes = sent.scope === null ? left : requestedScopes(sent.scope, left);
    if (!scopes || scopes.length === 0) throw invalidScope();
    await tx.db
      .updateTable('oauth_access_tokens')
      // now() is the start of this transaction. Exchanges that started before the current moment count as concurrent.
      .set({ refreshed_at: sql`clock_timestamp()`, revoked_at: sql`clock_timestamp()` })
      .where('id', '=', old.id)
      .execute();
    return issueTokens(tx, {
      applicationId: application.id,
      userId: old.user_id,
      scopes,
      refreshable: true,
      familyId: old.family_id,
      codeChallenge: old.code_challenge,
      redirectUri: old.redirect_uri,
      refreshed: true,
    });
  });
  if (!tokens) throw invalidGrant();
  return tokens;
};

/**
 * Whether the password grant is enabled: by its own setting, and while git accepts passwords (specification 2 §4.2).
 */
export const isPasswordGrantOpen = async (ctx: Pick<Context, 'services'>): Promise<boolean> => {
  const settings = await getSettings(ctx);
  return settings.oauth_password_grant_enabled && settings.password_authentication_enabled_for_git;
};

/**
 * Exchanges a user's name and password for an access token (RFC 6749 §4.3), with or without a client. Rate-limited like
 * sign-in. Refuses users with a second factor, because this grant cannot ask for it.
 *
 * @throws OAuthError `unsupported_grant_type`, `invalid_grant`, `invalid_scope`; `too_many_requests`
 */
export const grantByPassword = async (
  ctx: Context,
  application: ApplicationRow | null,
  sent: { readonly username: string; readonly password: string; readonly scope: string | null },
): Promise<TokenResponse> => {
  if (!(await isPasswordGrantOpen(ctx))) throw unsupportedGrant();
  const scopes = requestedScopes(sent.scope, application?.scopes ?? OAUTH_SCOPES);
  if (!scopes || scopes.length === 0) throw invalidScope();
  const account = await checkPassword(ctx, { login: sent.username, password: sent.password }).catch(
    (error: unknown) => {
      if (!(error instanceof DomainError)) throw error;
      if (error.code === 'unauthenticated') throw invalidGrant();
      if (error.code === 'forbidden') throw invalidGrant(error.message);
      throw error;
    },
  );
  // The same message as for a wrong password, so that it does not confirm the password.
  if (account.two_factor_enabled || account.password_change_required) throw invalidGrant();
  // Nobody grants these before they enter admin mode, which this grant cannot ask for.
  const { admin_mode } = await getSettings(ctx);
  if ((admin_mode || !account.is_admin) && scopes.some((scope) => ADMINISTRATOR_SCOPES.has(scope)))
    throw invalidScope();
  return ctx.transaction(async (tx) => {
    const left = application ? await scopesLeft(tx, application.id, scopes) : scopes;
    if (left.length === 0) throw invalidScope();
    return issueTokens(tx, {
      applicationId: application?.id ?? null,
      userId: account.id,
      scopes: left,
      refreshable: false,
    });
  });
};

/** Answers a device that polls for the user's decision (RFC 8628 §3.4). @throws OAuthError as described there */
export const grantToDevice = async (
  ctx: Context,
  application: ApplicationRow,
  deviceCode: string,
): Promise<TokenResponse> => {
  const answer = await ctx.transaction(async (tx) => {
    const poll = await pollDevice(tx, application, deviceCode);
    if ('error' in poll) return poll;
    const { user_id: userId } = poll.approved;
    await lockAuthorization(tx, { application_id: application.id, user_id: userId });
    const scopes = await scopesLeft(tx, application.id, poll.approved.scopes);
    if (scopes.length === 0) throw invalidScope();
    const issued = await issueTokens(tx, {
      applicationId: application.id,
      userId,
      scopes,
      refreshable: false,
      tokenType: 'Bearer',
    });
    return withIdToken(tx, application, issued, { userId, scopes, nonce: null, authTime: null });
  });
  if ('error' in answer) throw new OAuthError(answer.error, DEVICE_ERRORS[answer.error]);
  return answer;
};

export const unsupportedGrant = () =>
  new OAuthError(
    'unsupported_grant_type',
    'The authorization grant type is not supported by the authorization server.',
  );

const DEVICE_ERRORS = {
  authorization_pending: 'The user has not answered yet.',
  slow_down: 'The device polls too often.',
  expired_token: 'The device code has expired. Start again.',
  access_denied: 'The resource owner or authorization server denied the request.',
  invalid_grant: invalidGrant().message,
} as const;

const withIdToken = async (
  tx: Tx,
  application: ApplicationRow,
  issued: TokenResponse,
  about: {
    readonly userId: number;
    readonly scopes: readonly string[];
    readonly nonce: string | null;
    readonly authTime: number | null;
  },
): Promise<TokenResponse> => {
  if (!about.scopes.includes('openid')) return issued;
  const id_token = await makeIdToken(tx, {
    userId: about.userId,
    scopes: new Set(about.scopes),
    clientId: application.uid,
    accessToken: issued.access_token,
    expiresIn: issued.expires_in,
    nonce: about.nonce,
    authTime: about.authTime,
  });
  return { ...issued, id_token };
};

const findGrant = ({ db }: Tx, code: string) =>
  db
    .selectFrom('oauth_grants as g')
    .innerJoin('users as u', 'u.id', 'g.user_id')
    .select([
      'g.id',
      'g.application_id',
      'g.user_id',
      'g.redirect_uri',
      'g.scopes',
      'g.code_challenge',
      'g.nonce',
      'g.family_id',
      sql<number | null>`floor(extract(epoch from g.authenticated_at))::bigint`.as('auth_time'),
      sql<boolean>`g.used_at is not null`.as('used'),
      sql<boolean>`g.expires_at <= now()`.as('expired'),
      sql<boolean>`u.state = 'active'`.as('active'),
    ])
    .where('g.digest', '=', digestToken(code))
    .executeTakeFirst();

const findRefreshable = ({ db }: Tx, refreshToken: string) =>
  db
    .selectFrom('oauth_access_tokens as t')
    .innerJoin('users as u', 'u.id', 't.user_id')
    .select([
      't.id',
      't.application_id',
      't.user_id',
      't.redirect_uri',
      't.scopes',
      't.code_challenge',
      't.family_id',
      sql<boolean>`t.refreshed_at is not null`.as('refreshed'),
      sql<boolean>`coalesce(t.refreshed_at > now(), false)`.as('just_now'),
      sql<boolean>`t.revoked_at is not null`.as('revoked'),
      sql<boolean>`u.state = 'active'`.as('active'),
    ])
    .where('t.refresh_digest', '=', digestToken(refreshToken))
    .executeTakeFirst();
