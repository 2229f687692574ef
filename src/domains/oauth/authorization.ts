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

/** In minutes, from issue to redemption. */
const CODE_LIFETIME_MINUTES = 10;

/** A valid authorization request, ready to show to its user. */
export interface AuthorizationRequest {
  readonly application: ApplicationRow;
  readonly scopes: readonly string[];
  /** As sent. It is registered for the application. */
  readonly redirectUri: string;
  readonly state: string | null;
  readonly codeChallenge: string | null;
  readonly nonce: string | null;
  /**
   * False when the request can be approved at once: the application is trusted, or it is confidential and the user has
   * already authorised it with these scopes.
   */
  readonly consentNeeded: boolean;
  /** The original query, for the consent form, which posts it back to be read again. */
  readonly query: string;
}

/** The outcome: continue with the request, have the user sign in (again), show an error, or redirect the browser. */
export type ReadAuthorization =
  | { readonly ok: AuthorizationRequest }
  /** The query of `/oauth/authorize` to return to. `again` when a signed-in user must re-authenticate. */
  | { readonly signIn: { readonly query: string; readonly again: boolean } }
  /** The redirect URI cannot be trusted, so nobody is redirected. */
  | { readonly show: OAuthError }
  | { readonly redirect: string };

/**
 * Reads an authorization request (RFC 6749 §4.1.1, RFC 7636, OpenID Connect Core §3.1.2). Errors are redirected to the
 * application once its redirect URI is verified and the user has signed in. Until then they are shown to the user.
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
    // Anyone can register an application and craft an invalid request. Without sign-in, the error redirect would make
    // this server an open redirector (RFC 9700 §4.11.2). A silent request (`prompt=none`) has no user to deceive.
    if (ctx.actor.userId === null && sent.get('prompt') !== 'none') {
      return { signIn: { query: sent.toString(), again: false } };
    }
    const scopes = (sent.get('scope') ?? '').split(' ');
    return { redirect: errorRedirect(ctx, { redirectUri, state, scopes }, error) };
  }
};

/**
 * Authorises the application on the caller's behalf, and returns the redirect with the code. Callers with a token
 * cannot do this, because they could extend their own permissions.
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
    return withParameters(request.redirectUri, { code, state: request.state, iss: issuerFor(tx, request) });
  });

/** Returns the redirect for a user who refuses. */
export const deny = (ctx: Pick<Context, 'services'>, request: AuthorizationRequest): string =>
  errorRedirect(
    ctx,
    request,
    new OAuthError('access_denied', 'The resource owner or authorization server denied the request.'),
  );

const errorRedirect = (
  ctx: Pick<Context, 'services'>,
  request: Pick<AuthorizationRequest, 'redirectUri' | 'state' | 'scopes'>,
  { code, message }: OAuthError,
): string => {
  const parameters = { error: code, error_description: message, state: request.state, iss: issuerFor(ctx, request) };
  return withParameters(request.redirectUri, parameters);
};

/**
 * Returns the value of `iss`, by which a client of several providers knows which one answered (RFC 9207). Only clients
 * of OpenID Connect get it: clients of plain OAuth 2.0, such as Auth.js, know no issuer and refuse the parameter.
 */
const issuerFor = (
  { services }: Pick<Context, 'services'>,
  { scopes }: Pick<AuthorizationRequest, 'scopes'>,
): string | null => (scopes.includes('openid') ? services.urls.base : null);

interface Wanted {
  readonly scopes: readonly string[];
  readonly codeChallenge: string | null;
  readonly nonce: string | null;
  readonly prompt: ReadonlySet<string>;
  /** Maximum age of the user's last authentication, in seconds. */
  readonly maxAge: number | null;
}

/** The values of `prompt` (OpenID Connect Core §3.1.2.1). */
export const PROMPTS: readonly string[] = ['none', 'login', 'consent', 'select_account'];
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
  if (![...prompt].every((each) => PROMPTS.includes(each)) || (prompt.has('none') && prompt.size > 1)) {
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

/** Only S256 is accepted. `plain`, which is also the default method, would reveal the verifier. */
const readChallenge = (sent: URLSearchParams, { confidential }: ApplicationRow): string | null => {
  const challenge = sent.get('code_challenge');
  const method = sent.get('code_challenge_method');
  if (challenge === null && method === null) {
    // A public client has no secret that binds the code to it (RFC 9700 §2.1.1).
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
  if (prompt.has('none')) throw new OAuthError('login_required', 'The user must sign in.');
  const query = new URLSearchParams(sent);
  query.set(SENT_TO_SIGN_IN, await stampFor(ctx, sent));
  return { query: query.toString(), again };
};

/**
 * Name of a parameter that is added when the user is sent to sign in. It carries the time, sealed for the application.
 * When the request returns, the sign-in must be later than that time. So a user cannot skip the sign-in by removing
 * parameters.
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

/** Whether the user has authenticated since this request sent them to sign in. */
const hasSignedInSince = async (ctx: Context, sent: URLSearchParams): Promise<boolean> => {
  const [, time, seal] = /^(\d{1,12})\.([\w-]{43})$/.exec(sent.get(SENT_TO_SIGN_IN) ?? '') ?? [];
  if (time === undefined || seal === undefined || !sameSecret(seal, sealOf(ctx.services, time, sent))) return false;
  const { rows } = await sql<{ age: number }>`
    select ceil(extract(epoch from now()))::bigint - ${Number(time)}::bigint as age`.execute(ctx.db);
  const age = rows[0]?.age ?? STAMP_LIFETIME_SECONDS;
  return age < STAMP_LIFETIME_SECONDS && isFresh(ctx, age);
};

/**
 * Whether the user authenticated within the last `seconds`. A caller without a session authenticated with this request.
 */
const isFresh = async ({ db, actor }: Context, seconds: number): Promise<boolean> => {
  if (actor.credential?.kind !== 'session') return true;
  const session = await db
    .selectFrom('sessions')
    .select(sql<boolean>`authenticated_at >= now() - make_interval(secs => ${seconds})`.as('fresh'))
    .where('id', '=', actor.credential.id)
    .executeTakeFirst();
  return session?.fresh ?? false;
};

/** Asks every time for a public client, because anybody could impersonate it (RFC 8252 §8.6). */
const isConsentNeeded = async (
  ctx: Context,
  { id, trusted, confidential }: ApplicationRow,
  { prompt, scopes }: Wanted,
): Promise<boolean> => {
  if (prompt.has('consent')) return true;
  // Each administrator must allow administrator scopes themselves, even for a trusted application.
  if (trusted && !scopes.some((scope) => ADMINISTRATOR_SCOPES.has(scope))) return false;
  if (!confidential) return true;
  return !(await isAuthorized(ctx, { applicationId: id, userId: requireUser(ctx), scopes }));
};
