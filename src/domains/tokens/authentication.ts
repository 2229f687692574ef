import { withClosedGroups } from '#domains/access/restrictions.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { checkPassword } from '#domains/users/credentials.ts';
import { refusalOf } from '#domains/users/model.ts';
import { defineCache } from '#platform/cache.ts';
import { CallerCheck } from '#platform/caller-check.ts';
import {
  type Actor,
  type ActorCredential,
  anonymous,
  type Client,
  type Services,
  systemActor,
} from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { statementName } from '#platform/db/pool.ts';
import {
  type DomainError,
  forbidden,
  insufficientScope,
  invalidToken,
  notFound,
  unauthenticated,
} from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { revokeFamily } from './commands.ts';
import { noteActivity, noteUse } from './last-use.ts';
import { isUnexpired } from './model.ts';

/** The credential of a request, as rest/auth.ts reads it. */
type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'token'; readonly value: string }
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  | { readonly kind: 'session'; readonly value: string }
  | { readonly kind: 'job_token'; readonly value: string };

/** The parts of a request that authentication needs. */
interface AuthenticationRequest {
  readonly method?: string;
  readonly route?: string;
  readonly ip?: string;
  readonly requestId?: string;
  readonly userAgent?: string | null;
  /** The id or name of the user whom an administrator wants to impersonate. */
  readonly sudo: string | null;
  /** Whether the query carries a credential. A setting may forbid this, because queries end up in logs. */
  readonly tokenInQuery?: boolean;
}

/**
 * Identifies the caller (conventions §5). With HTTP Basic the password is a token, whatever the user name. The database
 * confirms every cached identity (`assume`), so a revoked token or a blocked user is refused from the next request on.
 *
 * @throws `unauthenticated` for an unknown credential, `invalid_token` for a revoked or expired one, `forbidden` for
 * closed accounts and for sudo by a caller who is not an administrator, `insufficient_scope` and `not_found` for sudo
 */
export const authenticate = async (
  services: Services,
  credential: Credential,
  request: AuthenticationRequest,
): Promise<Actor> => comingFrom(services, await identify(services, credential, request), request.ip ?? null);

const identify = async (
  services: Services,
  credential: Credential,
  { sudo, route, tokenInQuery }: AuthenticationRequest,
): Promise<Actor> => {
  if (tokenInQuery && !(await getSettings({ services })).token_in_query_enabled) {
    throw invalidToken('Tokens are not accepted in the query.');
  }
  if (credential.kind === 'none') {
    if (sudo !== null) throw unauthenticated();
    return anonymous;
  }
  // Job tokens are not supported yet.
  if (credential.kind === 'job_token') throw unauthenticated();
  const actor =
    credential.kind === 'session'
      ? ((await actorOfSession(services, credential.value)) ?? anonymous)
      : await actorOfToken(services, credential.kind === 'basic' ? credential.password : credential.value, route);
  if (!actor || (actor.userId === null && sudo !== null)) throw unauthenticated();
  return sudo === null ? actor : actAs(services, actor, sudo);
};

/**
 * Identifies the caller of git over HTTP. The password is a token or, if the setting
 * `password_authentication_enabled_for_git` is on, the password of the account. Password guesses are rate-limited as
 * for sign-in. Tokens keep working during a lock, so that nobody can lock other users out.
 *
 * @throws as `authenticate`; `too_many_requests`
 */
export const authenticateGit = async (
  services: Services,
  { username, password }: { readonly username: string; readonly password: string },
  client: Client,
): Promise<Actor> => comingFrom(services, await identifyGit(services, { username, password }, client), client.ip);

const identifyGit = async (
  services: Services,
  { username, password }: { readonly username: string; readonly password: string },
  client: Client,
): Promise<Actor> => {
  const actor = await actorOfToken(services, password);
  if (actor) return actor;
  // This name marks the password as a token. A machine with an old token is not guessing passwords, and must not get
  // its whole address locked out.
  if (username === TOKEN_USERNAME) throw unauthenticated();
  const { password_authentication_enabled_for_git: allowed } = await getSettings({ services });
  if (!allowed || username === '' || username.includes('\0')) throw unauthenticated();
  const account = await checkPassword({ services, db: services.db, client }, { login: username, password });
  // Git cannot ask for a second factor, so these users must use a token.
  if (account.two_factor_enabled) throw unauthenticated();
  if (account.password_change_required) throw forbidden('You must first change your password on the web.');
  noteActivity(services, account.id);
  return actorOfAccount({ ...account, user_id: account.id }, null, null);
};

/** The user name that marks the password as a token (specification 2 §5). */
const TOKEN_USERNAME = 'oauth2';

/** Adds the client address to the actor, and the groups whose IP restrictions exclude it. */
const comingFrom = async (services: Services, actor: Actor, address: string | null): Promise<Actor> => {
  const located = { ...actor, address };
  const [judged] = await withClosedGroups(services, [located]);
  return judged ?? located;
};

/** Returns the user as an actor without a token, or null when the account is closed or deleted. */
export const actorFor = async (services: Services, userId: number): Promise<Actor | null> => {
  const { rows } = await services.pool.query<Account>(
    'select id as user_id, username, is_admin, external, state from users where id = $1',
    [userId],
  );
  const [account] = rows;
  return account?.state === 'active' ? actorOfAccount(account, null, null) : null;
};

interface Account {
  readonly user_id: number;
  readonly username: string;
  readonly is_admin: boolean;
  readonly external: boolean;
  readonly state: string;
}

interface FoundRow extends Account {
  readonly kind: ActorCredential['kind'];
  readonly id: number;
  /** Null for a session, which has no scope restriction. */
  readonly scopes: string[] | null;
  readonly revoked: boolean;
  readonly expired: boolean;
  readonly impersonation: boolean;
  readonly holder_id: number;
  readonly origin_id: string | null;
  /** Shared by all tokens that were rotated from one another. Set on a token that was already rotated. */
  readonly rotated_family: string | null;
  /** Whether its last use, or the activity of its user, was not recorded recently. */
  readonly stale: boolean;
}

/** A token with the row versions of the token and its user, as platform/db/row-cache.ts returns them. */
interface FoundToken extends FoundRow {
  readonly kind: 'token' | 'oauth_token';
  readonly version: readonly [xmin: string, ctid: string, userXmin: string, userCtid: string];
}

// Every request runs this: one round trip, by index. The database decides expiry, because all processes share its
// clock.
const STALE = `(c.last_used_at is null or c.last_used_at < now() - interval '1 minute'
      or u.last_activity_on is distinct from current_date)`;

const FIND_TOKEN = `
  select c.kind, c.id, c.scopes, c.revoked, c.expired, c.impersonation, c.holder_id, c.origin_id, c.rotated_family,
    u.id as user_id, u.username, u.is_admin, u.external, u.state, ${STALE} as stale,
    array[c.xmin::text, c.ctid::text, u.xmin::text, u.ctid::text] as version
  from (
    select t.xmin, t.ctid, 'token' as kind, t.id, t.user_id, t.scopes, t.revoked, not ${isUnexpired('t')} as expired,
      t.impersonation, case when t.impersonation then coalesce(t.created_by_id, t.user_id) else t.user_id end as holder_id,
      t.origin_id, case when t.rotated_at is not null then t.family_id end as rotated_family, t.last_used_at
    from personal_access_tokens t where t.digest = $1
    union all
    select a.xmin, a.ctid, 'oauth_token', a.id, a.user_id, a.scopes, a.revoked_at is not null, coalesce(a.expires_at <= now(), false),
      false, a.user_id, a.family_id, null, a.last_used_at
    from oauth_access_tokens a where a.digest = $1
  ) c join users u on u.id = c.user_id`;

const FIND_SESSION = `
  select 'session' as kind, c.id, null as scopes, false as revoked, false as expired, false as impersonation,
    c.user_id as holder_id, null as origin_id, null as rotated_family,
    u.id as user_id, u.username, u.is_admin, u.external, u.state, ${STALE} as stale
  from sessions c join users u on u.id = c.user_id
  where c.digest = $1 and c.expires_at > now()`;

const actorOfToken = async (services: Services, value: string, route = ''): Promise<Actor | null> => {
  const digest = digestToken(value);
  // Forget the token until it is accepted again, so that a refused token costs no cache checks.
  admitted(services).delete(keyOf(digest));
  const { rows } = await services.pool.query<FoundToken>(FIND_TOKEN, [digest]);
  const [token] = rows;
  if (!token) return null;
  if (token.revoked) {
    if (token.rotated_family !== null && ROTATING.has(route)) {
      await revokeFamily(createContextFactory(services)({ actor: systemActor }), token.rotated_family);
    }
    throw invalidToken('Token was revoked. You have to re-authorize from the user.');
  }
  if (token.expired) throw invalidToken('Token is expired. You can either do re-authorization or token refresh.');
  const refusal = await refusalBySettings(services, token);
  if (refusal) throw refusal;
  if (token.state !== 'active') throw closedAccount(token.state);
  if (!token.stale) remember(services, digest, token);
  return actorOfRow(services, token);
};

const refusalBySettings = async (
  services: Services,
  { kind, impersonation, is_admin }: FoundToken,
): Promise<DomainError | null> => {
  if (kind !== 'token') return null;
  const settings = await getSettings({ services });
  if (impersonation && !settings.impersonation_enabled) {
    return invalidToken('Token is an impersonation token but impersonation was disabled.');
  }
  return settings.disable_personal_access_tokens && !impersonation && !is_admin
    ? invalidToken('Personal access tokens are disabled.')
    : null;
};

/** Accepted tokens by digest. `assume` uses them for the next request. */
const admitted = defineCache<string, FoundToken>({ name: 'accepted tokens', limit: 2_000 });

const remember = (services: Services, digest: Buffer, token: FoundToken): void =>
  admitted(services).set(keyOf(digest), token);

const keyOf = (digest: Buffer): string => digest.toString('latin1');

/**
 * Returns the caller from the cache, with a callerCheck that the caller must confirm: neither the row of the token nor
 * that of its user has changed since. Returns null when the cache has no entry.
 */
export const assume = async (
  services: Services,
  credential: Credential,
  { sudo, ip, tokenInQuery }: AuthenticationRequest,
): Promise<{ readonly actor: Actor; readonly callerCheck: CallerCheck } | null> => {
  if (credential.kind !== 'token' || sudo !== null || tokenInQuery) return null;
  const token = admitted(services).get(keyOf(digestToken(credential.value)));
  if (!token || (await refusalBySettings(services, token))) return null;
  const text = UNCHANGED[token.kind];
  const check = { name: statementName(text), text, values: [token.id, token.user_id, ...token.version] };
  const actor = await comingFrom(services, actorOfRow(services, token), ip ?? null);
  return { actor, callerCheck: new CallerCheck(check) };
};

const unchangedIn = (table: string, isValid: string): string => `
  select 1 as one from ${table} c, users u
  where c.id = $1 and u.id = $2 and c.xmin = $3::xid and c.ctid = $4::tid and u.xmin = $5::xid and u.ctid = $6::tid
    and ${isValid} and not ${STALE}`;

const UNCHANGED: Readonly<Record<FoundToken['kind'], string>> = {
  token: unchangedIn('personal_access_tokens', isUnexpired('c')),
  oauth_token: unchangedIn('oauth_access_tokens', '(c.expires_at is null or c.expires_at > now())'),
};

/** The routes where an already rotated token shows that the token has leaked. */
const ROTATING: ReadonlySet<string> = new Set([
  '/api/v4/personal_access_tokens/self/rotate',
  '/api/v4/personal_access_tokens/:id/rotate',
]);

/** An ended session leaves its cookie in the browser. Such a request is anonymous, which is not an error. */
const actorOfSession = async (services: Services, value: string): Promise<Actor | null> => {
  const { rows } = await services.pool.query<FoundRow>(FIND_SESSION, [digestToken(value)]);
  const [session] = rows;
  return session?.state === 'active' ? actorOfRow(services, session) : null;
};

const actorOfRow = (services: Services, row: FoundRow): Actor => {
  const credential = { kind: row.kind, id: row.id, holderId: row.holder_id, originId: row.origin_id };
  if (row.stale) noteUse(services, row.user_id, credential);
  return actorOfAccount(row, row.scopes && new Set(row.scopes), credential);
};

const actorOfAccount = (
  account: Account,
  scopes: ReadonlySet<string> | null,
  credential: ActorCredential | null,
): Actor => ({
  userId: account.user_id,
  username: account.username,
  isAdmin: account.is_admin,
  isExternal: account.external,
  isSystem: false,
  scopes,
  credential,
});

const closedAccount = (state: string): DomainError => forbidden(refusalOf({ state }) ?? 'Your account is not active.');

const actAs = async (services: Services, actor: Actor, sudo: string): Promise<Actor> => {
  if (!actor.isAdmin) throw forbidden('Must be admin to use sudo');
  if (!actor.scopes?.has('sudo')) throw insufficientScope(['sudo']);
  const id = /^\d{1,15}$/.test(sudo) ? Number(sudo) : null;
  const { rows } = await services.pool.query<Account>(FIND_ACCOUNT, [id, sudo.includes('\0') ? '' : sudo]);
  const [account] = rows;
  if (!account) throw notFound(`User with ID or username '${sudo.slice(0, 255)}'`);
  if (account.state !== 'active') throw closedAccount(account.state);
  return actorOfAccount(account, actor.scopes, actor.credential);
};

const FIND_ACCOUNT = `
  select id as user_id, username, is_admin, external, state from users
  where case when $1::bigint is null then lower(username) = lower($2) else id = $1 end`;
