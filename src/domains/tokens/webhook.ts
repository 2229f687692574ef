import { hookTime } from '#platform/time.ts';

interface ExpiringToken {
  readonly id: number;
  readonly user_id: number;
  readonly name: string;
  readonly created_at: string;
  /** The last day on which it works. */
  readonly expires_at: string | null;
}

/**
 * Returns the webhook body for tokens about to expire, with the object of their project or group (reference: webhooks
 * §3).
 */
export const tokenBody = (
  owner: { readonly project: Record<string, unknown> } | { readonly group: Record<string, unknown> },
  token: ExpiringToken,
): Record<string, unknown> => ({
  object_kind: 'access_token',
  event_name: 'expiring_access_token',
  ...owner,
  object_attributes: {
    id: token.id,
    user_id: token.user_id,
    name: token.name,
    created_at: hookTime(token.created_at),
    expires_at: token.expires_at,
  },
});
