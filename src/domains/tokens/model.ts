import type { Actor } from '#platform/context.ts';

/** The scopes of impersonation tokens (specification 2 §5). */
export const IMPERSONATION_SCOPES = ['api', 'read_user'] as const;

/** Only administrators can use these scopes, so only administrators get them. */
export const ADMINISTRATOR_SCOPES: ReadonlySet<string> = new Set(['admin_mode', 'sudo']);

/**
 * Whether a caller may grant `scope` to a token, new or rotated. Scopes of null are unrestricted. `api` covers all but
 * the administrator scopes, which nobody grants before they enter admin mode.
 */
export const mayGrant = (
  { scopes, needsAdminMode }: Pick<Actor, 'scopes' | 'needsAdminMode'>,
  scope: string,
): boolean =>
  ADMINISTRATOR_SCOPES.has(scope)
    ? !needsAdminMode && (scopes === null || scopes.has(scope))
    : scopes === null || scopes.has(scope) || scopes.has('api');

/** Whether a token is active on `day` (today). It works to the end of the day `expires_at`, in UTC. */
export const isActive = (
  token: { readonly revoked: boolean; readonly expires_at: string | null },
  day: string,
): boolean => !token.revoked && (token.expires_at === null || token.expires_at >= day);

/**
 * Returns the same rule as an SQL condition, without the revocation. `alias` is the alias of the token's table in the
 * statement. The database's clock decides, and its sessions run in UTC.
 */
export const isUnexpired = (alias: string): string =>
  `(${alias}.expires_at is null or ${alias}.expires_at >= current_date)`;

/** Returns the day `days` after `day`, both as `YYYY-MM-DD`. */
export const daysAfter = (day: string, days: number): string => {
  const date = new Date(`${day}T00:00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
};
