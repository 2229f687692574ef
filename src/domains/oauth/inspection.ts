import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { digestToken } from '#platform/secrets.ts';
import type { ApplicationRow } from './applications.ts';
import { invalidClient, OAuthError } from './protocol-error.ts';
import { lockAuthorization, revokeFamily } from './tokens.ts';

/** The body of `/oauth/token/info` (specification 2 §2.3), including deprecated aliases. */
export interface TokenInfo {
  readonly resource_owner_id: number;
  readonly scope: readonly string[];
  /** Seconds until expiry. Null for a token that does not expire. */
  readonly expires_in: number | null;
  readonly application: { readonly uid: string | null };
  /** Unix time. */
  readonly created_at: number;
  readonly scopes: readonly string[];
  readonly expires_in_seconds: number | null;
}

/**
 * Describes an access token, with the family that it shares with the tokens of its authorization.
 * @throws OAuthError `invalid_token` when it is unknown or no longer active
 */
export const tokenInfo = async (
  ctx: Pick<Context, 'db'>,
  value: string,
): Promise<{ readonly info: TokenInfo; readonly familyId: string }> => {
  const token = await findToken(ctx, value);
  if (token?.kind !== 'access' || !token.living) throw new OAuthError('invalid_token', 'The access token is invalid');
  const info = {
    resource_owner_id: token.user_id,
    scope: token.scopes,
    expires_in: token.expires_in,
    application: { uid: token.uid },
    created_at: token.created_at,
    scopes: token.scopes,
    expires_in_seconds: token.expires_in,
  };
  return { info, familyId: token.family_id };
};

export type Introspection =
  | { readonly active: false }
  | {
      readonly active: true;
      readonly scope: string;
      readonly client_id: string;
      readonly username: string;
      readonly sub: string;
      readonly iss: string;
      /** Unix time, like `exp`. */
      readonly iat: number;
      /** Only for access tokens; refresh tokens have none. */
      readonly token_type?: 'bearer';
      readonly exp?: number;
    };

/**
 * Describes a token to an application (RFC 7662). Tokens of other applications are reported as inactive.
 *
 * @throws OAuthError `invalid_client` for a public client
 */
export const introspect = async (
  ctx: Pick<Context, 'db' | 'services'>,
  application: ApplicationRow,
  value: string,
): Promise<Introspection> => {
  // Otherwise anyone who knows a client id could probe tokens (§2.1).
  if (!application.confidential) throw invalidClient();
  const token = await findToken(ctx, value);
  if (!token?.living || token.application_id !== application.id) return { active: false };
  const known = {
    active: true as const,
    scope: token.scopes.join(' '),
    client_id: application.uid,
    username: token.username,
    sub: String(token.user_id),
    iss: ctx.services.urls.base,
    iat: token.created_at,
  };
  if (token.kind === 'refresh') return known;
  return {
    ...known,
    token_type: 'bearer',
    ...(token.expires_in === null ? {} : { exp: token.expires_at }),
  };
};

/**
 * Revokes a token with its pair (RFC 7009). Unknown and inactive tokens are not an error. Without a client, only tokens
 * without an application can be revoked.
 *
 * @throws OAuthError `unauthorized_client` for another application's token, `invalid_client` when a client is required
 */
export const revokeByClient = (ctx: Context, application: ApplicationRow | null, value: string): Promise<void> =>
  ctx.transaction(async (tx) => {
    const token = await findToken(tx, value);
    if (!application && token?.application_id !== null) throw invalidClient();
    if (!token) return;
    if (token.application_id !== (application?.id ?? null)) {
      throw new OAuthError('unauthorized_client', 'You are not authorized to revoke this token');
    }
    await lockAuthorization(tx, token);
    await revokeFamily(tx, token.family_id, 'application');
  });

interface FoundToken {
  readonly kind: 'access' | 'refresh';
  readonly application_id: number | null;
  readonly uid: string | null;
  readonly user_id: number;
  readonly username: string;
  readonly scopes: string[];
  readonly family_id: string;
  /** Whether it is neither revoked nor expired (as an access token), and the user's account is open. */
  readonly living: boolean;
  readonly created_at: number;
  readonly expires_at: number;
  readonly expires_in: number | null;
}

const findToken = async ({ db }: Pick<Context, 'db'>, value: string): Promise<FoundToken | null> => {
  const digest = digestToken(value);
  const { rows } = await sql<FoundToken>`
    select case when t.digest = ${digest} then 'access' else 'refresh' end as kind,
      t.application_id, a.uid, t.user_id, u.username, t.scopes, t.family_id,
      t.revoked_at is null and u.state = 'active'
        and (t.digest <> ${digest} or t.expires_at is null or t.expires_at > now()) as living,
      floor(extract(epoch from t.created_at))::bigint as created_at,
      floor(extract(epoch from t.expires_at))::bigint as expires_at,
      ceil(extract(epoch from t.expires_at - now()))::integer as expires_in
    from oauth_access_tokens t
      join users u on u.id = t.user_id
      left join oauth_applications a on a.id = t.application_id
    where t.id in (
      select id from oauth_access_tokens where digest = ${digest}
      union all select id from oauth_access_tokens where refresh_digest = ${digest})`.execute(db);
  return rows[0] ?? null;
};
