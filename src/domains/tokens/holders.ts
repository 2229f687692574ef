import { getSettings } from '#domains/settings/queries.ts';
import { refusalByTerms, type TermsAccount } from '#domains/users/terms.ts';
import { defineCache } from '#platform/cache.ts';
import { CallerCheck, CallerCondition } from '#platform/caller/caller-check.ts';
import { JOB_TOKEN_SCOPE } from '#platform/caller/token-scopes.ts';
import { type Actor, type Services, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { type DomainError, invalidToken } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { type Account, actorOfAccount, closedAccount } from './actors.ts';
import { revokeFamily } from './commands.ts';
import { noteUse } from './last-use.ts';
import { isUnexpired } from './model.ts';

// The holders of tokens, sessions and job tokens. authentication.ts decides which of these a request has.

interface FoundRow extends Account, TermsAccount {
  readonly kind: 'token' | 'oauth_token' | 'session';
  readonly id: number;
  /** Null for a session, which has no scope restriction. */
  readonly scopes: string[] | null;
  readonly revoked: boolean;
  readonly expired: boolean;
  readonly impersonation: boolean;
  readonly holder_id: number;
  /** Whether the session is in admin mode. */
  readonly elevated: boolean;
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
    false as elevated, u.id as user_id, u.username, u.is_admin, u.is_auditor, u.external, u.state, u.user_type, u.accepted_terms, ${STALE} as stale,
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
    coalesce(c.admin_until > now(), false) as elevated, u.id as user_id, u.username, u.is_admin, u.is_auditor, u.external, u.state, u.user_type, u.accepted_terms, ${STALE} as stale
  from sessions c join users u on u.id = c.user_id
  where c.digest = $1 and c.expires_at > now()`;

/**
 * Returns the holder of a personal access token or OAuth token, or null for an unknown one.
 *
 * @throws `invalid_token` for a revoked or expired one, `forbidden` for closed accounts and unaccepted terms
 */
export const actorOfToken = async (services: Services, value: string, route = ''): Promise<Actor | null> => {
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
  const unaccepted = await refusalOfToken(services, token);
  if (unaccepted) throw unaccepted;
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

/** An administrator who impersonates a user does not accept the terms for them. */
const refusalOfToken = (services: Services, token: FoundToken): Promise<DomainError | null> =>
  token.impersonation ? Promise.resolve(null) : refusalByTerms(services, token);

/** Accepted tokens by digest. `assume` uses them for the next request. */
const admitted = defineCache<string, FoundToken>({ name: 'accepted tokens', limit: 2_000 });

const remember = (services: Services, digest: Buffer, token: FoundToken): void =>
  admitted(services).set(keyOf(digest), token);

const keyOf = (digest: Buffer): string => digest.toString('latin1');

/** A caller who is taken from the cache until the database confirms that nothing has changed. */
export interface AssumedCaller {
  readonly actor: Actor;
  readonly callerCheck: CallerCheck;
}

/** Returns the holder of a token that was accepted a moment ago, or null. */
export const assumedHolder = async (
  services: Services,
  value: string,
): Promise<(AssumedCaller & { readonly holderId: number }) | null> => {
  const token = admitted(services).get(keyOf(digestToken(value)));
  if (!token || (await refusalBySettings(services, token)) || (await refusalOfToken(services, token))) return null;
  return {
    actor: await actorOfRow(services, token),
    callerCheck: new CallerCheck(UNCHANGED[token.kind], [token.id, token.user_id, ...token.version]),
    holderId: token.holder_id,
  };
};

const unchangedIn = (table: string, isValid: string): CallerCondition =>
  new CallerCondition((first) => {
    const [id, userId, xmin, ctid, userXmin, userCtid] = Array.from({ length: 6 }, (_, i) => `$${first + i}`);
    return `exists (select from ${table} c, users u
      where c.id = ${id} and c.xmin = ${xmin}::xid and c.ctid = ${ctid}::tid
        and u.id = ${userId} and u.xmin = ${userXmin}::xid and u.ctid = ${userCtid}::tid
        and ${isValid} and not ${STALE})`;
  });

const UNCHANGED: Readonly<Record<FoundToken['kind'], CallerCondition>> = {
  token: unchangedIn('personal_access_tokens', isUnexpired('c')),
  oauth_token: unchangedIn('oauth_access_tokens', '(c.expires_at is null or c.expires_at > now())'),
};

/** The routes where an already rotated token shows that the token has leaked. */
const ROTATING: ReadonlySet<string> = new Set([
  '/api/v4/personal_access_tokens/self/rotate',
  '/api/v4/personal_access_tokens/:id/rotate',
]);

/**
 * Returns the user of the job that has this token, limited to the routes that accept such tokens. The token is valid
 * while the job runs or is being canceled, and never gives the rights of administrators and auditors.
 */
export const actorOfJob = async (services: Services, value: string): Promise<Actor | null> => {
  const { rows } = await services.pool.query<HolderOfJob>(FIND_JOB, [digestToken(value)]);
  const [job] = rows;
  if (!job) return null;
  if (job.state !== 'active') throw closedAccount(job.state);
  const credential = { kind: 'job_token', id: job.job_id, holderId: job.user_id, originId: null } as const;
  const scopes = new Set([JOB_TOKEN_SCOPE]);
  const actor = await actorOfAccount(services, { ...job, is_admin: false, is_auditor: false }, { scopes, credential });
  return { ...actor, job: { id: job.job_id, projectId: job.project_id } };
};

type HolderOfJob = Omit<Account, 'is_admin' | 'is_auditor'> & { readonly job_id: number; readonly project_id: number };

const FIND_JOB = `
  select j.id as job_id, j.project_id, u.id as user_id, u.username, u.external, u.state
  from jobs j join users u on u.id = j.user_id
  where j.token_digest = $1 and j.status in ('running', 'canceling')`;

/** An ended session leaves its cookie in the browser. Such a request is anonymous, which is not an error. */
export const actorOfSession = async (services: Services, value: string): Promise<Actor | null> => {
  const { rows } = await services.pool.query<FoundRow>(FIND_SESSION, [digestToken(value)]);
  const [session] = rows;
  if (session?.state !== 'active') return null;
  const actor = await actorOfRow(services, session);
  return session.user_type === 'human' ? { ...actor, acceptedTerms: session.accepted_terms } : actor;
};

const actorOfRow = async (services: Services, row: FoundRow): Promise<Actor> => {
  const credential = { kind: row.kind, id: row.id, holderId: row.holder_id, originId: row.origin_id };
  if (row.stale) noteUse(services, row.user_id, credential);
  return actorOfAccount(services, row, {
    scopes: row.scopes && new Set(row.scopes),
    credential,
    elevated: row.elevated,
  });
};
