import { createHmac } from 'node:crypto';
import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { ADMINISTRATOR_SCOPES } from '#domains/tokens/model.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context, Services } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { digestToken, randomToken, sameSecret } from '#platform/secrets.ts';
import { type ApplicationRow, findApplicationByUid } from './applications.ts';
import { requestedScopes } from './model.ts';
import { isCodeChallenge } from './pkce.ts';
import { invalidClient, invalidRequest, invalidScope, OAuthError } from './protocol-error.ts';
import { isRegistered, redirectUriProblem, withParameters } from './redirect-uris.ts';
import { isAuthorized } from './tokens.ts';

/** Minutes in which a code has to be redeemed. */
const CODE_LIFETIME_MINUTES = 10;

/** A request for authorization that may be put before its user. */
export interface AuthorizationRequest {
  readonly application: ApplicationRow;
  readonly scopes: readonly string[];
  /** As sent; it is registered for the application. */
  readonly redirectUri: string;
  readonly state: string | null;
  readonly codeChallenge: string | null;
  readonly nonce: string | null;
  /** False: `approve` at once. The application is trusted, or it keeps a secret and has been let in with these scopes before. */
  readonly consentNeeded: boolean;
  /** The request itself, for the form that is posted back: read it again there. */
  readonly query: string;
}

/** One of: go on with the request; have the user sign in (again) and come back; show an error; send the browser away. */
export type ReadAuthorization =
  | { readonly ok: AuthorizationRequest }
  /** The query of `/oauth/authorize` to come back with. `again` where somebody is signed in, but has to prove it anew. */
  | { readonly signIn: { readonly query: string; readonly again: boolean } }
  /** The redirect URI cannot be trusted: nobody is redirected. */
  | { readonly show: OAuthError }
  | { readonly redirect: string };

/**
 * Reads a request for authorization (RFC 6749 §4.1.1, RFC 7636, OpenID Connect Core §3.1.2). Errors go to the
 * application by redirect once it is certain that the redirect URI is its own and the user has signed in, and to the
 * user before.
 */
export const readAuthorizationRequest = async (ctx: Context, query: string): Promise<ReadAuthorization> => {
  const sent = new URLSearchParams(query);
  const repeated = [...new Set(sent.keys())].filter((name) => sent.getAll(name).length > 1);
  if (repeated.includes('client_id') || repeated.includes('redirect_uri')) {
    return { show: invalidRequest('The request repeats a parameter.') };
  }
  const application = await findApplicationByUid(ctx, sent.get('client_id') ?? '');
  if (!application) return { show: invalidClient() };
  const redirectUri = sent.get('redirect_uri');
  const { oauth_plain_http_redirects_enabled: plainHttp } = await getSettings(ctx);
  if (
    redirectUri === null ||
    !isRegistered(application.redirect_uris, redirectUri) ||
    redirectUriProblem(redirectUri, { plainHttp }) !== null
  ) {
    return { show: invalidRequest('The redirect URI included is not valid.') };
  }

  const state = repeated.includes('state') ? null : sent.get('state');
  try {
    const wanted = readParameters(sent, application, repeated);
    const waiting = await whatSignInIsNeeded(ctx, sent, wanted);
    if (waiting) return { signIn: waiting };
    if (!ctx.actor.isAdmin && wanted.scopes.some((scope) => ADMINISTRATOR_SCOPES.has(scope))) throw invalidScope();
    const consentNeeded = await isConsentNeeded(ctx, application, wanted);
    if (consentNeeded && wanted.prompt.has('none')) {
      throw new OAuthError('consent_required', 'The user has not authorized the application.');
    }
    const { scopes, codeChallenge, nonce } = wanted;
    return { ok: { application, scopes, redirectUri, state, codeChallenge, nonce, consentNeeded, query } };
  } catch (error) {
    if (!(error instanceof OAuthError)) throw error;
    // Anyone can register an application, and a request that is wrong on purpose: nobody is sent on unknowingly from
    // here to there (RFC 9700 §4.11.2). Where an application asks in silence, there is nobody to be deceived.
    if (ctx.actor.userId === null && sent.get('prompt') !== 'none') {
      return { signIn: { query: sent.toString(), again: false } };
    }
    return { redirect: errorRedirect(ctx, { redirectUri, state }, error) };
  }
};

/**
 * Lets the application in on the caller's behalf, and returns where the browser goes with the code. Tokens cannot do
 * that: they would make themselves more of what they are.
 *
 * @throws `unauthenticated`, `forbidden`
 */
export const approve = (ctx: Context, request: AuthorizationRequest): Promise<string> =>
  ctx.transaction(async (tx) => {
    const { credential } = tx.actor;
    const user_id = requireUser(tx);
    if (credential !== null && credential.kind !== 'session') throw forbidden();
    const code = randomToken(43);
    await tx.db
      .insertInto('oauth_grants')
      .values({
        application_id: request.application.id,
        user_id,
        digest: digestToken(code),
        redirect_uri: request.redirectUri,
        scopes: [...request.scopes],
        code_challenge: request.codeChallenge,
        nonce: request.nonce,
        authenticated_at:
          credential === null ? null : sql`(select authenticated_at from sessions where id = ${credential.id})`,
        expires_at: sql`now() + ${sql.lit(CODE_LIFETIME_MINUTES)} * interval '1 minute'`,
      })
      .execute();
    return withParameters(request.redirectUri, { code, state: request.state, iss: tx.services.urls.base });
  });

/** Where the browser goes when the user refuses. */
export const deny = (ctx: Pick<Context, 'services'>, request: AuthorizationRequest): string =>
  errorRedirect(
    ctx,
    request,
    new OAuthError('access_denied', 'The resource owner or authorization server denied the request.'),
  );

/** With `iss`, so that a client of several providers is not deceived about whose answer it is (RFC 9207). */
const errorRedirect = (
  { services }: Pick<Context, 'services'>,
  { redirectUri, state }: Pick<AuthorizationRequest, 'redirectUri' | 'state'>,
  { code, message }: OAuthError,
): string => withParameters(redirectUri, { error: code, error_description: message, state, iss: services.urls.base });

interface Wanted {
  readonly scopes: readonly string[];
  readonly codeChallenge: string | null;
  readonly nonce: string | null;
  readonly prompt: ReadonlySet<string>;
  /** Seconds since the user last proved who he is. */
  readonly maxAge: number | null;
}

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);
const PRINTABLE = /^[ -~]{1,512}$/;

const readParameters = (sent: URLSearchParams, application: ApplicationRow, repeated: readonly string[]): Wanted => {
  if (repeated.length > 0) throw invalidRequest('The request repeats a parameter.');
  if (sent.has('request')) throw new OAuthError('request_not_supported', 'Request objects are not supported.');
  if (sent.has('request_uri')) throw new OAuthError('request_uri_not_supported', 'Request objects are not supported.');
  const type = sent.get('response_type');
  if (type === null || type === '') throw invalidRequest('Missing required parameter: response_type.');
  if (type !== 'code') {
    throw new OAuthError('unsupported_response_type', 'The authorization server does not support this response type.');
  }
  if ((sent.get('response_mode') ?? 'query') !== 'query') throw invalidRequest('The response mode is not supported.');
  const scopes = requestedScopes(sent.get('scope'), application.scopes);
  if (!scopes || scopes.length === 0) throw invalidScope();
  const nonce = sent.get('nonce');
  if (nonce !== null && !PRINTABLE.test(nonce)) throw invalidRequest('The nonce is not valid.');
  const prompt = new Set((sent.get('prompt') ?? '').split(' ').filter((each) => each !== ''));
  if (![...prompt].every((each) => PROMPTS.has(each)) || (prompt.has('none') && prompt.size > 1)) {
    throw invalidRequest('The prompt is not valid.');
  }
  const maxAge = sent.get('max_age');
  if (maxAge !== null && !/^\d{1,9}$/.test(maxAge)) throw invalidRequest('The max_age is not valid.');
  return {
    scopes,
    nonce,
    prompt,
    codeChallenge: readChallenge(sent, application),
    maxAge: maxAge === null ? null : Number(maxAge),
  };
};

/** S256 alone: `plain`, also as the default that it is without a method, would show the verifier. */
const readChallenge = (sent: URLSearchParams, { confidential }: ApplicationRow): string | null => {
  const challenge = sent.get('code_challenge');
  const method = sent.get('code_challenge_method');
  if (challenge === null && method === null) {
    // RFC 9700 §2.1.1: without a secret nothing else binds the code to who asked for it.
    if (!confidential) throw invalidRequest('Code challenge is required.');
    return null;
  }
  if (method !== 'S256') throw invalidRequest('The code_challenge_method must be S256.');
  if (challenge === null || !isCodeChallenge(challenge)) throw invalidRequest('The code_challenge is not valid.');
  return challenge;
};

const whatSignInIsNeeded = async (
  ctx: Context,
  sent: URLSearchParams,
  { prompt, maxAge }: Wanted,
): Promise<{ readonly query: string; readonly again: boolean } | null> => {
  const signedIn = ctx.actor.userId !== null;
  const again =
    signedIn &&
    (prompt.has('login') || prompt.has('select_account') || (maxAge !== null && !(await isFresh(ctx, maxAge)))) &&
    !(await hasSignedInSince(ctx, sent));
  if (signedIn && !again) return null;
  if (prompt.has('none')) throw new OAuthError('login_required', 'The user has to sign in.');
  const query = new URLSearchParams(sent);
  query.set(SENT_TO_SIGN_IN, await stampFor(ctx, sent));
  return { query: query.toString(), again };
};

/**
 * Goes along with a request whose user is sent to sign in: when that was, sealed for the application. Once he has, the
 * request comes back with it and is satisfied; by leaving something out of the address nobody gets around signing in.
 */
const SENT_TO_SIGN_IN = 'millrace_sent_to_sign_in';
const STAMP_LIFETIME_SECONDS = 3_600;

const stampFor = async ({ db, services }: Context, sent: URLSearchParams): Promise<string> => {
  const { rows } = await sql<{ time: number }>`select floor(extract(epoch from now()))::bigint as time`.execute(db);
  const time = String(rows[0]?.time ?? 0);
  return `${time}.${sealOf(services, time, sent)}`;
};

const sealOf = ({ secretKey }: Services, time: string, sent: URLSearchParams): string =>
  createHmac('sha256', secretKey)
    .update(`oauth-sign-in\0${time}\0${sent.get('client_id') ?? ''}`)
    .digest('base64url');

/** Whether the user has proved who he is after this request sent him to do so. */
const hasSignedInSince = async (ctx: Context, sent: URLSearchParams): Promise<boolean> => {
  const [, time, seal] = /^(\d{1,12})\.([\w-]{43})$/.exec(sent.get(SENT_TO_SIGN_IN) ?? '') ?? [];
  if (time === undefined || seal === undefined || !sameSecret(seal, sealOf(ctx.services, time, sent))) return false;
  const { rows } = await sql<{ age: number }>`
    select ceil(extract(epoch from now()))::bigint - ${Number(time)}::bigint as age`.execute(ctx.db);
  const age = rows[0]?.age ?? STAMP_LIFETIME_SECONDS;
  return age < STAMP_LIFETIME_SECONDS && isFresh(ctx, age);
};

/** Whether the user proved who he is within so many seconds. Who came without a session proved it just now. */
const isFresh = async ({ db, actor }: Context, seconds: number): Promise<boolean> => {
  if (actor.credential?.kind !== 'session') return true;
  const session = await db
    .selectFrom('sessions')
    .select(sql<boolean>`authenticated_at >= now() - make_interval(secs => ${seconds})`.as('fresh'))
    .where('id', '=', actor.credential.id)
    .executeTakeFirst();
  return session?.fresh ?? false;
};

/** An application without a secret is asked about each time: anybody could pretend to be it (RFC 8252 §8.6). */
const isConsentNeeded = async (
  ctx: Context,
  { id, trusted, confidential }: ApplicationRow,
  { prompt, scopes }: Wanted,
): Promise<boolean> => {
  if (prompt.has('consent')) return true;
  // Acting as anyone is for each administrator to allow, whoever trusts the application.
  if (trusted && !scopes.some((scope) => ADMINISTRATOR_SCOPES.has(scope))) return false;
  if (!confidential) return true;
  return !(await isAuthorized(ctx, { applicationId: id, userId: requireUser(ctx), scopes }));
};
