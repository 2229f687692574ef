import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type ApplicationRow, applicationsByIds } from './applications.ts';
import { endMadeThrough } from './ending.ts';
import { authorizationCreated, authorizationRevoked } from './events.ts';

/** The input for issuing tokens. */
export interface Issue {
  /** Null for the password grant without a client. */
  readonly applicationId: number | null;
  readonly userId: number;
  readonly scopes: readonly string[];
  /** Whether to issue a refresh token. The device flow and the password grant issue none (specification 2 §2.3). */
  readonly refreshable: boolean;
  /** Shared by all tokens of one authorization, which are revoked together. A new family starts when absent. */
  readonly familyId?: string;
  readonly codeChallenge?: string | null;
  readonly redirectUri?: string | null;
  /** Whether the tokens replace earlier ones of the family, so that this is not a new authorization. */
  readonly refreshed?: boolean;
  /** `Bearer` for the device flow, `bearer` elsewhere. */
  readonly tokenType?: 'bearer' | 'Bearer';
}

/** The response of the token endpoint (specification 2 §2.3). The token values are returned only here. */
export interface TokenResponse {
  readonly access_token: string;
  readonly token_type: 'bearer' | 'Bearer';
  /** In seconds. */
  readonly expires_in: number;
  readonly refresh_token?: string;
  readonly scope: string;
  /** Unix time. */
  readonly created_at: number;
  readonly id_token?: string;
}

/**
 * Returns those of the scopes that the application still has, and keeps it from being changed until the transaction ends.
 * Call it before tokens are changed: `updateApplication` takes the locks in this order.
 */
export const scopesLeft = async (tx: Tx, applicationId: number, scopes: readonly string[]): Promise<string[]> => {
  const { rows } = await sql<{ scopes: string[] }>`
    select scopes from oauth_applications where id = ${applicationId} for share`.execute(tx.db);
  return scopes.filter((scope) => rows[0]?.scopes.includes(scope));
};

/** Issues an access token, and a refresh token if requested. Call it in the transaction that uses up the grant. */
export const issueTokens = async (tx: Tx, issue: Issue): Promise<TokenResponse> => {
  const { oauth_access_token_lifetime: expires_in } = await getSettings(tx);
  const access_token = randomToken(43);
  const refresh_token = issue.refreshable ? randomToken(43) : null;
  const { created_at } = await tx.db
    .insertInto('oauth_access_tokens')
    .values({
      application_id: issue.applicationId,
      user_id: issue.userId,
      digest: digestToken(access_token),
      refresh_digest: refresh_token === null ? null : digestToken(refresh_token),
      scopes: [...issue.scopes],
      code_challenge: issue.codeChallenge ?? null,
      redirect_uri: issue.redirectUri ?? null,
      family_id: issue.familyId ?? randomUUID(),
      expires_at: sql`now() + make_interval(secs => ${expires_in})`,
    })
    .returning(sql<number>`floor(extract(epoch from created_at))::bigint`.as('created_at'))
    .executeTakeFirstOrThrow();
  if (!issue.refreshed) {
    tx.emit(authorizationCreated, {
      ...about(issue.applicationId, issue.userId),
      payload: { application_id: issue.applicationId, user_id: issue.userId, scopes: [...issue.scopes] },
    });
  }
  return {
    access_token,
    token_type: issue.tokenType ?? 'bearer',
    expires_in,
    ...(refresh_token === null ? {} : { refresh_token }),
    scope: issue.scopes.join(' '),
    created_at,
  };
};

/**
 * Locks the credentials of an application and user until the transaction ends. Every exchange and revocation takes this
 * lock, so that no token is issued from a credential that is being revoked.
 */
export const lockAuthorization = async (
  { db }: Tx,
  { application_id, user_id }: { readonly application_id: number | null; readonly user_id: number },
): Promise<void> => {
  const key = `oauth:${application_id ?? 0}:${user_id}`;
  await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(db);
};

/**
 * Revokes the remaining tokens of an authorization under its lock, and ends the credentials created through it. Emits
 * no event when none was active.
 */
export const revokeFamily = async (tx: Tx, familyId: string, reason: 'application' | 'reuse'): Promise<void> => {
  const [revoked] = await tx.db
    .updateTable('oauth_access_tokens')
    .set({ revoked_at: sql`now()` })
    .where('family_id', '=', familyId)
    .where('revoked_at', 'is', null)
    .returning(['application_id', 'user_id'])
    .execute();
  if (!revoked) return;
  const { application_id, user_id } = revoked;
  tx.emit(authorizationRevoked, {
    ...about(application_id, user_id),
    payload: { application_id, user_id, reason },
  });
  await endMadeThrough(tx, { familyId });
};

/** An application that a user has authorised. */
export interface AuthorizedApplication {
  readonly application: ApplicationRow;
  /** The scopes of all its active tokens. */
  readonly scopes: readonly string[];
  /** When the user first authorised it. */
  readonly created_at: string;
  readonly last_used_at: string | null;
  /** The number of active credentials that it created: tokens, applications, runners, webhooks. */
  readonly credentials: number;
}

/**
 * Returns the applications whose access the caller can revoke, newest first: those with active tokens, and those whose
 * tokens have expired but whose created credentials are still active.
 *
 * @throws `unauthenticated`
 */
export const authorizedApplications = async (ctx: Context): Promise<readonly AuthorizedApplication[]> => {
  const userId = requireUser(ctx);
  const { oauth_grants_end_credentials: ends } = await getSettings(ctx);
  const { rows } = await sql<{
    application_id: number;
    scopes: string[];
    created_at: string;
    last_used_at: string | null;
    credentials: number;
  }>`
    with living as (
      select t.application_id, min(t.created_at) as created_at, max(t.last_used_at) as last_used_at
      from oauth_access_tokens t
      where t.user_id = ${userId} and t.application_id is not null and ${isLiving('t')}
      group by t.application_id
    ), made as (
      select o.application_id, min(o.created_at) as created_at, count(*) as credentials
      from credential_origins o join living_credentials c on c.origin_id = o.id
      where o.user_id = ${userId} and o.application_id is not null and o.ended_at is null
      group by o.application_id
    )
    select application_id, coalesce(living.created_at, made.created_at) as created_at, living.last_used_at,
      coalesce(made.credentials, 0) as credentials,
      array(select distinct s from oauth_access_tokens o, unnest(o.scopes) s
        where o.user_id = ${userId} and o.application_id = coalesce(living.application_id, made.application_id)
          and ${isLiving('o')} order by s) as scopes
    from living full join made using (application_id)
    where living.application_id is not null or ${ends}
    order by 2 desc, 1 desc`.execute(ctx.db);
  const applications = await applicationsByIds(
    ctx,
    rows.map((row) => row.application_id),
  );
  return rows.flatMap(({ application_id, ...row }) => {
    const application = applications.get(application_id);
    return application ? [{ application, ...row }] : [];
  });
};

/**
 * Revokes an application's access to the caller's account: all its tokens and codes. Ends the credentials it created,
 * if the setting `oauth_grants_end_credentials` is on.
 *
 * @throws `unauthenticated`, `not_found` (Application) when there is no authorization
 */
export const revokeAuthorization = (ctx: Context, applicationId: number): Promise<void> =>
  ctx.transaction(async (tx) => {
    const userId = requireUser(tx);
    await lockAuthorization(tx, { application_id: applicationId, user_id: userId });
    const revoked = await tx.db
      .updateTable('oauth_access_tokens')
      .set({ revoked_at: sql`now()` })
      .where('user_id', '=', userId)
      .where('application_id', '=', applicationId)
      .where('revoked_at', 'is', null)
      .returning('id')
      .execute();
    // Also ends codes and device approvals that have not been exchanged yet.
    await tx.db
      .updateTable('oauth_grants')
      .set({ used_at: sql`now()` })
      .where('user_id', '=', userId)
      .where('application_id', '=', applicationId)
      .where('used_at', 'is', null)
      .execute();
    await tx.db
      .deleteFrom('oauth_device_grants')
      .where('user_id', '=', userId)
      .where('application_id', '=', applicationId)
      .execute();
    const ended = await endMadeThrough(tx, { userId, applicationId });
    if (revoked.length === 0 && ended === 0) throw notFound('Application');
    tx.emit(authorizationRevoked, {
      ...about(applicationId, userId),
      payload: { application_id: applicationId, user_id: userId, reason: 'user' },
    });
  });

/** Whether the user has an active authorization for the application with all of these scopes. */
export const isAuthorized = async (
  { db }: Pick<Context, 'db'>,
  { applicationId, userId, scopes }: { applicationId: number; userId: number; scopes: readonly string[] },
): Promise<boolean> => {
  const { rows } = await sql`
    select from oauth_access_tokens t
    where t.user_id = ${userId} and t.application_id = ${applicationId} and ${isLiving('t')}
      and t.scopes @> ${[...scopes]}::text[] limit 1`.execute(db);
  return rows.length > 0;
};

/** Not revoked, and either unexpired or refreshable. */
const isLiving = (table: 't' | 'o') =>
  sql`${sql.ref(`${table}.revoked_at`)} is null
    and (${sql.ref(`${table}.refresh_digest`)} is not null or ${sql.ref(`${table}.expires_at`)} > now())`;

const about = (applicationId: number | null, userId: number) => ({
  subject: applicationId === null ? { type: 'User', id: userId } : { type: 'OauthApplication', id: applicationId },
  user_ids: [userId],
});
