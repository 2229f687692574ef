import type { IncomingHttpHeaders } from 'node:http';
import { notAdministrator } from '#platform/caller/administrators.ts';
import type { CallerCheck } from '#platform/caller/caller-check.ts';
import { readCookie, sessionCookieName } from '#platform/caller/cookies.ts';
import { CSRF_HEADER, isCsrfToken } from '#platform/caller/csrf.ts';
import type { RouteScope } from '#platform/caller/token-scopes.ts';
import type { Actor, Services } from '#platform/context.ts';
import { insufficientScope, unauthenticated } from '#platform/errors.ts';
import { sameSecret } from '#platform/secrets.ts';
import type { Parameters } from './nested.ts';
import type { Auth } from './route.ts';

export type Credential =
  | { readonly kind: 'none' }
  /** Any kind of token: personal, OAuth, impersonation. */
  | { readonly kind: 'token'; readonly value: string }
  /** The password may also be a token. */
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  /** The value of a signed-in user's cookie. */
  | { readonly kind: 'session'; readonly value: string }
  /** The token of a CI job. Valid only on routes that accept such tokens. */
  | { readonly kind: 'job_token'; readonly value: string };

export interface RequestInfo {
  readonly method: string;
  /** The declared path, such as `/api/v4/projects/:id`. */
  readonly route: string;
  readonly ip: string;
  readonly requestId: string;
  readonly userAgent: string | null;
  /** The id or username of the user as whom an administrator wants to act. */
  readonly sudo: string | null;
  /** True when the query carries a credential, which ends up in logs and browser histories. */
  readonly tokenInQuery: boolean;
}

/**
 * Authenticates a credential. Implemented by the domain `tokens`.
 * @throws DomainError `unauthenticated` or `invalid_token` for an invalid credential
 */
export type Authenticate = (credential: Credential, request: RequestInfo) => Promise<Actor>;

/**
 * Returns the assumed caller of a request: the caller that an earlier request authenticated with the same credential,
 * still to be confirmed. Null when there is none.
 */
export type Assume = (
  credential: Credential,
  request: RequestInfo,
) => Promise<{ readonly actor: Actor; readonly callerCheck: CallerCheck } | null>;

const NONE: Credential = { kind: 'none' };

/**
 * Reads the credential of a request from its headers and from the parameters in `sent`. The same credential may come in
 * two places. Two different credentials, or a malformed one, are a 401.
 */
export const readCredential = (headers: IncomingHttpHeaders, sent: Parameters): Credential => {
  const authorization = headers.authorization;
  if (
    authorization === undefined &&
    headers['private-token'] === undefined &&
    headers['job-token'] === undefined &&
    sent.private_token === undefined &&
    sent.access_token === undefined &&
    sent.job_token === undefined
  ) {
    return NONE;
  }
  const found: Credential[] = [];
  const add = (kind: 'token' | 'job_token', value: unknown) => {
    if (value === undefined || value === '' || value === null) return;
    if (typeof value !== 'string' || value.length > MAX_TOKEN_LENGTH) throw unauthenticated();
    found.push({ kind, value });
  };
  add('token', headers['private-token']);
  add('token', sent.private_token);
  if (authorization !== undefined && authorization !== '') found.push(readAuthorization(authorization));
  add('token', sent.access_token);
  add('job_token', headers['job-token']);
  add('job_token', sent.job_token);
  const [first = NONE, ...others] = found;
  if (others.some((other) => !agree(first, other))) throw unauthenticated();
  return first;
};

/**
 * Like `readCredential`, but falls back to the session cookie. Browsers send the cookie with requests from any page, so
 * requests other than GET and HEAD also need the CSRF token in `X-CSRF-Token`. Without it the cookie is ignored.
 */
export const readCaller = (
  { method, headers }: { readonly method: string; readonly headers: IncomingHttpHeaders },
  sent: Parameters,
  { secretKey, urls }: Pick<Services, 'secretKey' | 'urls'>,
): Credential => {
  const credential = readCredential(headers, sent);
  if (credential.kind !== 'none' || headers.cookie === undefined) return credential;
  const value = readCookie(headers, sessionCookieName(urls));
  if (value === null || value.length > MAX_TOKEN_LENGTH) return NONE;
  const counts = method === 'GET' || method === 'HEAD' || isCsrfToken(secretKey, value, headers[CSRF_HEADER]);
  return counts ? { kind: 'session', value } : NONE;
};

/** Returns whether the parameters carry a credential. */
export const hasCredential = ({ private_token, access_token, job_token }: Parameters): boolean =>
  private_token !== undefined || access_token !== undefined || job_token !== undefined;

/** Returns the value of the `Sudo` header or the `sudo` parameter, or null. */
export const readSudo = (headers: IncomingHttpHeaders, sent: Parameters): string | null => {
  const value = headers.sudo ?? sent.sudo;
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : null;
};

/**
 * Checks whether the actor may call the route at all. The domain decides what they may do there.
 * @throws DomainError `unauthenticated`, `insufficient_scope` or `forbidden`
 */
export const requireAccess = (
  actor: Actor,
  route: { readonly auth: Auth; readonly scopes: readonly RouteScope[]; readonly admin: boolean },
): void => {
  if (actor.userId === null && !actor.isSystem && (route.auth === 'required' || route.admin)) throw unauthenticated();
  const { scopes } = actor;
  const isRestricted = route.scopes.length > 0 || actor.job !== undefined;
  if (scopes !== null && isRestricted && !route.scopes.some((scope) => scopes.has(scope))) {
    throw insufficientScope(route.scopes);
  }
  if (route.admin && !actor.isAdmin) throw notAdministrator(actor);
};

const MAX_TOKEN_LENGTH = 2_000;

const readAuthorization = (header: string): Credential => {
  const [, scheme = '', rest = ''] = /^([A-Za-z]+)[ ]+(\S+)\s*$/.exec(header) ?? [];
  if (rest === '' || rest.length > MAX_TOKEN_LENGTH) throw unauthenticated();
  if (/^(bearer|token)$/i.test(scheme)) return { kind: 'token', value: rest };
  if (!/^basic$/i.test(scheme)) throw unauthenticated();
  const pair = Buffer.from(rest, 'base64').toString('utf8');
  const colon = pair.indexOf(':');
  if (colon < 0 || pair.includes('\0')) throw unauthenticated();
  return { kind: 'basic', username: pair.slice(0, colon), password: pair.slice(colon + 1) };
};

const secretOf = (credential: Credential): string =>
  credential.kind === 'none' ? '' : credential.kind === 'basic' ? credential.password : credential.value;

const agree = (left: Credential, right: Credential): boolean =>
  (left.kind === right.kind || left.kind === 'basic' || right.kind === 'basic') &&
  sameSecret(secretOf(left), secretOf(right));
