import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';
import { PROMPTS } from './authorization.ts';
import { isPasswordGrantOpen } from './grants.ts';
import { CLAIMS } from './identity.ts';
import { DEVICE_GRANT, OAUTH_SCOPES } from './model.ts';
import { SIGNING_ALGORITHM } from './signing-keys.ts';

/** How clients may send their secret (RFC 7591 §2). */
const SECRET_METHODS: readonly string[] = ['client_secret_basic', 'client_secret_post'];

/** Returns the metadata for client configuration (RFC 8414, OpenID Connect Discovery §3). */
export const providerMetadata = async (ctx: Pick<Context, 'services'>) => ({
  issuer: ctx.services.urls.base,
  authorization_endpoint: webUrl(ctx, 'oauth/authorize'),
  token_endpoint: webUrl(ctx, 'oauth/token'),
  revocation_endpoint: webUrl(ctx, 'oauth/revoke'),
  introspection_endpoint: webUrl(ctx, 'oauth/introspect'),
  userinfo_endpoint: webUrl(ctx, 'oauth/userinfo'),
  jwks_uri: webUrl(ctx, 'oauth/discovery/keys'),
  device_authorization_endpoint: webUrl(ctx, 'oauth/authorize_device'),
  scopes_supported: OAUTH_SCOPES,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: [
    'authorization_code',
    'refresh_token',
    ...((await isPasswordGrantOpen(ctx)) ? ['password'] : []),
    DEVICE_GRANT,
  ],
  token_endpoint_auth_methods_supported: [...SECRET_METHODS, 'none'],
  revocation_endpoint_auth_methods_supported: [...SECRET_METHODS, 'none'],
  introspection_endpoint_auth_methods_supported: SECRET_METHODS,
  code_challenge_methods_supported: ['S256'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: [SIGNING_ALGORITHM],
  claim_types_supported: ['normal'],
  claims_supported: ['iss', 'aud', 'exp', 'iat', 'azp', 'at_hash', 'auth_time', 'nonce', ...CLAIMS],
  prompt_values_supported: PROMPTS,
  request_parameter_supported: false,
  request_uri_parameter_supported: false,
});
