import { TOKEN_SCOPES } from '#domains/tokens/model.ts';

/** What an application may ask for: what a personal access token opens, and who the user is (OpenID Connect). */
export const OAUTH_SCOPES = [...TOKEN_SCOPES, 'openid', 'profile', 'email'] as const;

/** What is asked for when a request names no scope. */
const DEFAULT_SCOPE = 'api';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/**
 * The scopes that a request asks for, space-separated as it sends them, or null where it asks for one that `available`
 * does not hold. Without any it is `api`, or what there is where that is not among it.
 */
export const requestedScopes = (
  sent: string | null | undefined,
  available: readonly string[],
): readonly string[] | null => {
  const scopes = [...new Set((sent ?? '').split(' ').filter((scope) => scope !== ''))];
  if (scopes.length === 0) return available.includes(DEFAULT_SCOPE) ? [DEFAULT_SCOPE] : available;
  return scopes.every((scope) => available.includes(scope)) ? scopes : null;
};
