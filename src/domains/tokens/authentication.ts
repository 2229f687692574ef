import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { verifyPassword } from '#domains/users/password.ts';
import { type Actor, type ActorCredential, anonymous, type Services } from '#platform/context.ts';
import {
  type DomainError,
  forbidden,
  insufficientScope,
  invalidToken,
  notFound,
  unauthenticated,
} from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';

/** What a request may carry; rest/auth.ts reads it. */
type Credential =
  | { readonly kind: 'none' }
  | { readonly kind: 'token'; readonly value: string }
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  | { readonly kind: 'job_token'; readonly value: string };

/** What is known of a request before it is known whose it is. */
interface AuthenticationRequest {
  readonly method?: string;
  readonly route?: string;
  readonly ip?: string;
  readonly requestId?: string;
  readonly userAgent?: string | null;
  /** The id or name of the user whom an administrator wants to act as. */
  readonly sudo: string | null;
}

/**
 * Finds out who calls (conventions §5). With HTTP Basic the password is a token, whatever the name. Nothing is
 * remembered between requests: a token that was revoked, or a user who was blocked, is refused from the next one on.
 *
 * @throws `unauthenticated` for a credential nobody has, `invalid_token` for one that ran out, `forbidden` for closed
 * accounts and for sudo by others than administrators, `insufficient_scope` and `not_found` for sudo
 */
export const authenticate = async (
  services: Services,
  credential: Credential,
  { sudo }: AuthenticationRequest,
): Promise<Actor> => {
  if (credential.kind === 'none') {
    if (sudo !== null) throw unauthenticated();
    return anonymous;
  }
  // Jobs, and so their tokens, are not here yet.
  if (credential.kind === 'job_token') throw unauthenticated();
  const actor = await actorOfToken(services, credential.kind === 'basic' ? credential.password : credential.value);
  if (!actor) throw unauthenticated();
  return sudo === null ? actor : actAs(services, actor, sudo);
};

/**
 * Finds out who clones or pushes: the password is a token or, where the setting `password_authentication_enabled_for_git`
 * allows it, the account's own. Ten wrong ones close the account to passwords for ten minutes; tokens go on working, or
 * anyone could shut anyone out.
 *
 * @throws as `authenticate`
 */
export const authenticateGit = async (
  services: Services,
  { username, password }: { readonly username: string; readonly password: string },
): Promise<Actor> => {
  const actor = await actorOfToken(services, password);
  if (actor) return actor;
  const { password_authentication_enabled_for_git: allowed } = await getSettings({ services });
  if (!allowed || username === '' || username.includes('\0')) throw unauthenticated();
  return actorOfPassword(services, username, password);
};

/** The user as an actor without a token, or null when the account is closed or gone. */
export const actorFor = async (services: Services, userId: number): Promise<Actor | null> => {
  const { rows } = await services.pool.query<Account>(
    'select id as user_id, username, is_admin, external, state from users where id = $1',
    [userId],
  );
  const [account] = rows;
  return account?.state === 'active' ? actorOfAccount(account, null, null) : null;
};

/**
 * Which of the actors (their indexes) could still come in as they once did: their token is neither revoked nor expired,
 * their account is open, and they are administrators or external users as they were then. One statement for all.
 */
export const stillValid = async (services: Services, actors: readonly Actor[]): Promise<ReadonlySet<number>> => {
  const valid = new Set<number>();
  const groups = new Map<string, { readonly actor: Actor; readonly indexes: number[] }>();
  for (const [index, actor] of actors.entries()) {
    if (actor.userId === null) {
      valid.add(index);
      continue;
    }
    const key = `${actor.userId}:${actor.credential?.kind}:${actor.credential?.id}:${actor.isAdmin}:${actor.isExternal}`;
    const group = groups.get(key);
    if (group) group.indexes.push(index);
    else groups.set(key, { actor, indexes: [index] });
  }
  if (groups.size === 0) return valid;
  const asked = [...groups.values()];
  const { rows } = await services.pool.query<{ n: number }>(STILL_VALID, [
    asked.map(({ actor }) => actor.userId),
    asked.map(({ actor }) => (actor.credential?.kind === 'token' ? actor.credential.id : null)),
    asked.map(({ actor }) => actor.isAdmin),
    asked.map(({ actor }) => actor.isExternal),
  ]);
  for (const { n } of rows) for (const index of asked[n - 1]?.indexes ?? []) valid.add(index);
  return valid;
};

// An administrator's token may stand for someone else (sudo).
const STILL_VALID = `
  select w.n from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::boolean[])
    with ordinality as w (user_id, token_id, is_admin, external, n)
  join users u on u.id = w.user_id
  left join personal_access_tokens t on t.id = w.token_id
  left join users o on o.id = t.user_id
  where u.state = 'active' and u.is_admin = w.is_admin and u.external = w.external
    and (w.token_id is null
      or (not t.revoked and (t.expires_at is null or t.expires_at > current_date)
        and o.state = 'active' and (o.id = u.id or o.is_admin)))`;

interface Account {
  readonly user_id: number;
  readonly username: string;
  readonly is_admin: boolean;
  readonly external: boolean;
  readonly state: string;
}

interface TokenRow extends Account {
  readonly token_id: number;
  readonly scopes: string[];
  readonly revoked: boolean;
  readonly expired: boolean;
  /** Its use, or that the user is about, has not been noted lately. */
  readonly stale: boolean;
}

// On the way of every request: one round trip, by index. Expiry is the database's time, as all processes share it.
const FIND_TOKEN = `
  select t.id as token_id, t.scopes, t.revoked, coalesce(t.expires_at <= current_date, false) as expired,
    u.id as user_id, u.username, u.is_admin, u.external, u.state,
    (t.last_used_at is null or t.last_used_at < now() - interval '1 minute'
      or u.last_activity_on is distinct from current_date) as stale
  from personal_access_tokens t join users u on u.id = t.user_id
  where t.digest = $1`;

const actorOfToken = async (services: Services, value: string): Promise<Actor | null> => {
  const { rows } = await services.pool.query<TokenRow>(FIND_TOKEN, [digestToken(value)]);
  const [token] = rows;
  if (!token) return null;
  if (token.revoked) throw invalidToken('Token was revoked. You have to re-authorize from the user.');
  if (token.expired) throw invalidToken('Token is expired. You can either do re-authorization or token refresh.');
  if (token.state !== 'active') throw closedAccount(token.state);
  if (token.stale) noteUse(services, token.user_id, token.token_id);
  return actorOfAccount(token, new Set(token.scopes), { kind: 'token', id: token.token_id });
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

const REASONS: Readonly<Record<string, string>> = {
  blocked: 'Your account has been blocked.',
  ldap_blocked: 'Your account has been blocked.',
  banned: 'Your account has been banned.',
  deactivated: 'Your account has been deactivated by your administrator.',
  blocked_pending_approval: 'Your account is pending approval from your administrator.',
};

const closedAccount = (state: string): DomainError => forbidden(REASONS[state] ?? 'Your account is not active.');

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

/** Marks of tokens whose use is being noted right now: a burst of requests writes it once. */
const noting = new WeakMap<Services, Set<number>>();

/** Notes when a token was last used (to the minute) and that its user is about (to the day), beside the request. */
const noteUse = (services: Services, userId: number, tokenId: number): void => {
  let busy = noting.get(services);
  if (!busy) {
    busy = new Set();
    noting.set(services, busy);
  }
  if (busy.has(tokenId)) return;
  busy.add(tokenId);
  services.pool
    .query(NOTE_USE, [tokenId, userId])
    .catch((error: unknown) => services.log.warn({ err: error }, 'the use of a token could not be noted'))
    .finally(() => busy.delete(tokenId));
};

const NOTE_USE = `
  with used as (
    update personal_access_tokens set last_used_at = now()
    where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute'))
  update users set last_activity_on = current_date
  where id = $2 and last_activity_on is distinct from current_date`;

const MAX_FAILED_ATTEMPTS = 10;
const LOCK_INTERVAL = '10 minutes';

interface PasswordRow extends Account {
  readonly password_hash: string | null;
  readonly locked: boolean;
  readonly failed_attempts: number;
  readonly two_factor_enabled: boolean;
}

const FIND_PASSWORD = `
  select id as user_id, username, is_admin, external, state, password_hash, failed_attempts, two_factor_enabled,
    coalesce(locked_until > now(), false) as locked
  from users where lower(username) = lower($1) or lower(email) = lower($1)
  order by (lower(username) = lower($1)) desc limit 1`;

const actorOfPassword = async (services: Services, username: string, password: string): Promise<Actor> => {
  const { rows } = await services.pool.query<PasswordRow>(FIND_PASSWORD, [username]);
  const [account] = rows;
  // A second factor cannot be asked for here; such users take a token.
  const usable = account && !account.locked && !account.two_factor_enabled ? account.password_hash : null;
  const right = await verifyPassword(usable, password);
  if (!account || usable === null) throw unauthenticated();
  if (!right) {
    await countFailure(services, account.user_id);
    throw unauthenticated();
  }
  if (account.state !== 'active') throw closedAccount(account.state);
  if (account.failed_attempts > 0) {
    await services.db
      .updateTable('users')
      .set({ failed_attempts: 0, locked_until: null })
      .where('id', '=', account.user_id)
      .execute();
  }
  return actorOfAccount(account, null, null);
};

const countFailure = (services: Services, userId: number): Promise<unknown> =>
  sql`
    update users set
      -- after a lock has passed, counting begins anew
      failed_attempts = case when locked_until <= now() then 1 else failed_attempts + 1 end,
      locked_until = case
        when locked_until <= now() then null
        when failed_attempts + 1 >= ${sql.lit(MAX_FAILED_ATTEMPTS)} then coalesce(locked_until, now() + ${sql.lit(LOCK_INTERVAL)}::interval)
        else locked_until end
    where id = ${userId}`.execute(services.db);
