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
