import { z } from 'zod';
import { oneOf, text } from '#rest/params.ts';
import { type Endpoint, endpoint } from '#rest/route.ts';
import { removedInV5 } from '#rest/v5.ts';
import { tokenInQuery } from '#rest/v5-requests.ts';
import { DEVICE_GRANT } from '../model.ts';

const tag = 'OAuth';
const client = {
  client_id: text().optional().describe('Or in the header, by HTTP Basic.'),
  client_secret: text().optional().describe('Or in the header, by HTTP Basic. Public applications have none.'),
};
const scope = text().optional().describe('Separated by spaces.');
const access_token = text().optional().describe('Prefer the header `Authorization: Bearer`.');

const tokens = z
  .object({
    access_token: z.string(),
    token_type: z.enum(['bearer', 'Bearer']),
    expires_in: z.int().describe('Seconds.'),
    refresh_token: z.string().optional(),
    scope: z.string(),
    created_at: z.int().describe('Unix time.'),
    id_token: z.string().optional().describe('With the scope `openid`.'),
    error: z.string().optional().describe('Sent instead of all other fields, with status 400 or 401.'),
    error_description: z.string().optional(),
  })
  .meta({ id: 'OAuthTokens' });

const deviceAuthorization = z
  .object({
    device_code: z.string(),
    user_code: z.string(),
    verification_uri: z.string(),
    verification_uri_complete: z.string(),
    expires_in: z.int().describe('Seconds.'),
    interval: z.int().describe('Seconds between polls.'),
  })
  .meta({ id: 'OAuthDeviceAuthorization' });

/** The body of `/oauth/token/info`. */
export const tokenInfoRecord = z
  .object({
    resource_owner_id: z.int(),
    scope: z.array(z.string()),
    expires_in: z.int().nullable().describe('Seconds until expiry. Null for a token that does not expire.'),
    application: z.object({ uid: z.string().nullable() }),
    created_at: z.int().describe('Unix time.'),
    scopes: removedInV5(z.array(z.string()), { replacedBy: 'scope' }),
    expires_in_seconds: removedInV5(z.int().nullable(), { replacedBy: 'expires_in' }),
  })
  .meta({ id: 'OAuthTokenInfo' });

const introspection = z
  .object({
    active: z.boolean(),
    scope: z.string().optional(),
    client_id: z.string().optional(),
    username: z.string().optional(),
    sub: z.string().optional(),
    iss: z.string().optional(),
    iat: z.int().optional(),
    token_type: z.literal('bearer').optional(),
    exp: z.int().optional(),
  })
  .meta({ id: 'OAuthIntrospection' });

const claims = z
  .object({
    sub: z.string(),
    name: z.string().optional(),
    nickname: z.string().optional(),
    preferred_username: z.string().optional(),
    profile: z.string().optional(),
    picture: z.string().optional(),
    website: z.string().optional(),
    zoneinfo: z.string().optional(),
    updated_at: z.int().optional(),
    groups: z.array(z.string()).optional(),
    email: z.string().optional(),
    email_verified: z.boolean().optional(),
  })
  .meta({ id: 'OpenIdClaims' });

/** Describes these paths (specification 2 §4.2). The mount in `endpoints.ts` and the pages serve them. */
export const endpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/oauth/authorize',
    root: true,
    tag,
    summary: 'Ask a user to authorize an application',
    description: 'For browsers: the user signs in and consents.',
    status: 302,
    input: {
      client_id: text(),
      redirect_uri: text(),
      response_type: oneOf(['code']),
      state: text().optional(),
      scope,
      code_challenge: text().optional().describe('Required for public applications (RFC 7636).'),
      code_challenge_method: oneOf(['S256']).optional(),
      nonce: text().optional(),
      prompt: text().optional(),
      max_age: text().optional(),
    },
    response: null,
  }),
  endpoint({
    method: 'POST',
    path: '/oauth/token',
    root: true,
    tag,
    summary: 'Get tokens for a grant',
    auth: 'optional',
    input: {
      grant_type: oneOf(['authorization_code', 'refresh_token', 'password', DEVICE_GRANT]),
      ...client,
      code: text().optional(),
      redirect_uri: text().optional(),
      code_verifier: text().optional(),
      refresh_token: text().optional(),
      username: text().optional(),
      password: text().optional(),
      device_code: text().optional(),
      scope,
    },
    response: tokens,
  }),
  endpoint({
    method: 'POST',
    path: '/oauth/authorize_device',
    root: true,
    tag,
    summary: 'Start the device flow',
    auth: 'optional',
    input: { ...client, scope },
    response: deviceAuthorization,
  }),
  endpoint({
    method: 'GET',
    path: '/oauth/device',
    root: true,
    tag,
    summary: 'Show the page where a user types the code of their device',
    input: { user_code: text().optional() },
    response: null,
  }),
  endpoint({
    method: 'POST',
    path: '/oauth/revoke',
    root: true,
    tag,
    summary: 'Revoke a token',
    auth: 'optional',
    input: { ...client, token: text() },
    response: z.object({}),
  }),
  endpoint({
    method: 'POST',
    path: '/oauth/introspect',
    root: true,
    tag,
    summary: 'Describe a token to its application (RFC 7662)',
    auth: 'optional',
    input: { ...client, token: text() },
    response: introspection,
  }),
  endpoint({
    method: 'GET',
    path: '/oauth/token/info',
    root: true,
    tag,
    summary: 'Describe the token of the request',
    v5: '/api/v5',
    description: 'Version 5 serves it below `/api/v5`.',
    input: { access_token: removedInV5(access_token, tokenInQuery) },
    response: tokenInfoRecord,
  }),
  ...(['GET', 'POST'] as const).map((method) =>
    endpoint({
      method,
      path: '/oauth/userinfo',
      root: true,
      tag,
      summary: "Get the claims of the token's user (OpenID Connect)",
      description: 'Requires the scope `openid`.',
      input: { access_token },
      response: claims,
    }),
  ),
];
