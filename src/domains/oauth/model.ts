import { TOKEN_SCOPES } from '#platform/caller/token-scopes.ts';

/** The scopes of applications: those of personal access tokens, and those of OpenID Connect. */
export const OAUTH_SCOPES = [...TOKEN_SCOPES, 'openid', 'profile', 'email'] as const;

/** The scope of a request that names none. */
const DEFAULT_SCOPE = 'api';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/**
 * Returns the requested scopes (space-separated in the request), or null when one is not in `available`. A request
 * without scopes gets `api`, or everything in `available` if `api` is not among it.
 */
export const requestedScopes = (
  sent: string | null | undefined,
  available: readonly string[],
): readonly string[] | null => {
  const scopes = [...new Set((sent ?? '').split(' ').filter((scope) => scope !== ''))];
  if (scopes.length === 0) return available.includes(DEFAULT_SCOPE) ? [DEFAULT_SCOPE] : available;
  return scopes.every((scope) => available.includes(scope)) ? scopes : null;
};
