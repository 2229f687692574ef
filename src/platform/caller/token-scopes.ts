/** The scopes of personal access tokens (conventions §5). */
export const TOKEN_SCOPES = [
  'api',
  'read_api',
  'read_user',
  'create_runner',
  'k8s_proxy',
  'self_rotate',
  'read_repository',
  'write_repository',
  'admin_mode',
  'sudo',
] as const;

export type TokenScope = (typeof TOKEN_SCOPES)[number];

/**
 * The one scope of a CI job's token. Routes that accept such tokens say so (`jobTokens`). Personal access tokens cannot
 * have it.
 */
export const JOB_TOKEN_SCOPE = 'job_token';

/** A scope that opens routes. */
export type RouteScope = TokenScope | typeof JOB_TOKEN_SCOPE;
