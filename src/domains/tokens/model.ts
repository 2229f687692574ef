/** What a personal access token can open (conventions §5). */
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

/** What an impersonation token can open (specification 2 §5). */
export const IMPERSONATION_SCOPES = ['api', 'read_user'] as const;

/** Only administrators can use them, so only administrators get them. */
export const ADMINISTRATOR_SCOPES: ReadonlySet<string> = new Set(['admin_mode', 'sudo']);

/** Whether someone acting with `held` (null: unrestricted) may hand out `scope`: `api` does all but act as others. */
export const mayGrant = (held: ReadonlySet<string> | null, scope: string): boolean =>
  held === null || held.has(scope) || (held.has('api') && !ADMINISTRATOR_SCOPES.has(scope));

/** A token counts until midnight UTC at which `expires_at` begins. `day` is today. */
export const isActive = (
  token: { readonly revoked: boolean; readonly expires_at: string | null },
  day: string,
): boolean => !token.revoked && (token.expires_at === null || token.expires_at > day);

/** The day `days` after `day`, both `YYYY-MM-DD`. */
export const daysAfter = (day: string, days: number): string => {
  const date = new Date(`${day}T00:00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
};
