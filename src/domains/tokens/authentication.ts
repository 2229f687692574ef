import { withClosedGroups } from '#domains/access/restrictions.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { isKnownClientAddress, requireClientAddress } from '#domains/users/client-addresses.ts';
import { checkPassword } from '#domains/users/credentials.ts';
import { isInternal } from '#domains/users/model.ts';
import { refusalByTerms } from '#domains/users/terms.ts';
import { type Actor, type ActorJob, anonymous, type Client, type Services } from '#platform/context.ts';
import { forbidden, insufficientScope, invalidToken, notFound, unauthenticated } from '#platform/errors.ts';
import { type Account, actorOfAccount, closedAccount } from './actors.ts';
import { type AssumedCaller, actorOfJob, actorOfSession, actorOfToken, assumedHolder } from './holders.ts';
import { noteActivity } from './last-use.ts';

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
  const actor = await actorOfCredential(services, credential, route);
  if (!actor || (actor.userId === null && sudo !== null)) throw unauthenticated();
  return sudo === null ? actor : actAs(services, actor, sudo);
};

const actorOfCredential = async (
  services: Services,
  credential: Exclude<Credential, { readonly kind: 'none' }>,
  route: string | undefined,
): Promise<Actor | null> => {
  switch (credential.kind) {
    case 'session':
      return (await actorOfSession(services, credential.value)) ?? anonymous;
    case 'job_token':
      return actorOfJob(services, credential.value);
    case 'basic':
      return actorOfBasic(services, credential, route);
    case 'token':
      return actorOfToken(services, credential.value, route);
  }
};

/**
 * Returns the holder of the token in the password. Release bots such as semantic-release send the token of a person or
 * a bot under the name of job tokens, so that name stands for every token.
 */
const actorOfBasic = async (
  services: Services,
  { username, password }: { readonly username: string; readonly password: string },
  route?: string,
): Promise<Actor | null> => {
  const job = username === JOB_USERNAME ? await actorOfJob(services, password) : null;
  return job ?? actorOfToken(services, password, route);
};

/**
 * Returns the caller from the cache, with a callerCheck that the caller must confirm: neither the row of the token nor
 * that of its user has changed since. Returns null when the cache has no entry, or when the address would count against
 * the limit of the user: only a confirmed caller may take one of their places.
 */
export const assume = async (
  services: Services,
  credential: Credential,
  { sudo, ip, tokenInQuery }: AuthenticationRequest,
): Promise<AssumedCaller | null> => {
  if (credential.kind !== 'token' || sudo !== null || tokenInQuery) return null;
  const assumed = await assumedHolder(services, credential.value);
  if (!assumed || !(await isKnownClientAddress(services, assumed.holderId, ip ?? null))) return null;
  const { actor, callerCheck } = assumed;
  return { actor: await locatedAt(services, actor, ip ?? null), callerCheck };
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
  const actor = await actorOfBasic(services, { username, password });
  if (actor) return actor;
  // These names mark the password as a token. A machine with an old token is not guessing passwords, and must not get
  // its whole address locked out.
  if (username === JOB_USERNAME || username === TOKEN_USERNAME) throw unauthenticated();
  const { password_authentication_enabled_for_git: allowed } = await getSettings({ services });
  if (!allowed || username === '' || username.includes('\0')) throw unauthenticated();
  const account = await checkPassword({ services, db: services.db, client }, { login: username, password });
  // Git cannot ask for a second factor, so these users must use a token.
  if (account.two_factor_enabled) throw unauthenticated();
  if (account.password_change_required) throw forbidden('You must first change your password on the web.');
  const refusal = await refusalByTerms(services, account);
  if (refusal) throw refusal;
  noteActivity(services, account.id);
  return actorOfAccount(services, { ...account, user_id: account.id }, { scopes: null, credential: null });
};

/** The user name that marks the password as a token (specification 2 §5). */
const TOKEN_USERNAME = 'oauth2';

/** The user name that marks the password as a token, usually that of a CI job (reference: ci §7). */
const JOB_USERNAME = 'gitlab-ci-token';

/**
 * Adds the client address to the actor, and the groups whose IP restrictions exclude it.
 *
 * @throws `forbidden` if the user is used from too many addresses, also by others who act as them
 */
const comingFrom = async (services: Services, actor: Actor, address: string | null): Promise<Actor> => {
  await requireClientAddress(services, actor.credential?.holderId ?? actor.userId, address);
  return locatedAt(services, actor, address);
};

const locatedAt = async (services: Services, actor: Actor, address: string | null): Promise<Actor> => {
  const located = { ...actor, address };
  const [judged] = await withClosedGroups(services, [located]);
  return judged ?? located;
};

/**
 * Returns the user as an actor without a token, or null when the account is closed or deleted. While admin mode is on,
 * nobody is an administrator this way, because work in the background cannot authenticate again. Projects that an external
 * service closes to them stay closed. Networks of groups close nothing, because there is no address.
 *
 * @param options `job`: the actor is the token of a job of the user, and never an administrator or auditor. `current`:
 * labels that projects got a moment ago count too
 */
export const actorFor = async (
  services: Services,
  userId: number,
  { job, current = false }: { readonly job?: ActorJob; readonly current?: boolean } = {},
): Promise<Actor | null> => {
  const { rows } = await services.pool.query<Account>(
    'select id as user_id, username, is_admin, is_auditor, external, state from users where id = $1',
    [userId],
  );
  const [account] = rows;
  if (account?.state !== 'active') return null;
  const ofJob = { ...account, is_admin: false, is_auditor: false };
  const found = await actorOfAccount(services, job ? ofJob : account, { scopes: null, credential: null });
  const actor = job ? { ...found, job } : found;
  const [judged] = await withClosedGroups(services, [actor], { current });
  return judged ?? actor;
};

const actAs = async (services: Services, actor: Actor, sudo: string): Promise<Actor> => {
  if (actor.needsAdminMode) throw insufficientScope(['admin_mode']);
  if (!actor.isAdmin) throw forbidden('Must be admin to use sudo');
  if (!actor.scopes?.has('sudo')) throw insufficientScope(['sudo']);
  const id = /^\d{1,15}$/.test(sudo) ? Number(sudo) : null;
  const { rows } = await services.pool.query<Account & { readonly user_type: string }>(FIND_ACCOUNT, [
    id,
    sudo.includes('\0') ? '' : sudo,
  ]);
  const [account] = rows;
  if (!account) throw notFound(`User with ID or username '${sudo.slice(0, 255)}'`);
  if (isInternal(account)) throw forbidden('Nobody can act as an internal account');
  if (account.state !== 'active') throw closedAccount(account.state);
  return actorOfAccount(services, account, { scopes: actor.scopes, credential: actor.credential });
};

const FIND_ACCOUNT = `
  select id as user_id, username, is_admin, is_auditor, external, state, user_type from users
  where case when $1::bigint is null then lower(username) = lower($2) else id = $1 end`;
