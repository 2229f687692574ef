import { getSettings } from '#domains/settings/queries.ts';
import { refusalOf } from '#domains/users/model.ts';
import type { Actor, ActorCredential, Services } from '#platform/context.ts';
import { type DomainError, forbidden } from '#platform/errors.ts';

/** The columns of a user that an actor is made of. */
export interface Account {
  readonly user_id: number;
  readonly username: string;
  readonly is_admin: boolean;
  readonly external: boolean;
  readonly is_auditor: boolean;
  readonly state: string;
}

interface Evidence {
  readonly scopes: ReadonlySet<string> | null;
  readonly credential: ActorCredential | null;
  /** Whether the session is in admin mode. */
  readonly elevated?: boolean;
}

/**
 * Makes the actor. While the setting `admin_mode` is on, an administrator is one only with a session in admin mode or a
 * token with the scope `admin_mode`, and an ordinary user otherwise. `still-valid.ts` decides the same in SQL, for
 * callers that stay connected.
 */
export const actorOfAccount = async (
  services: Services,
  account: Account,
  { scopes, credential, elevated = false }: Evidence,
): Promise<Actor> => {
  const needsAdminMode =
    account.is_admin && !elevated && !scopes?.has('admin_mode') && (await getSettings({ services })).admin_mode;
  return {
    userId: account.user_id,
    username: account.username,
    isAdmin: account.is_admin && !needsAdminMode,
    ...(needsAdminMode ? { needsAdminMode } : {}),
    isExternal: account.external,
    ...(account.is_auditor ? { isAuditor: true } : {}),
    isSystem: false,
    scopes,
    credential,
  };
};

/** The refusal of a user whose account is closed. */
export const closedAccount = (state: string): DomainError =>
  forbidden(refusalOf({ state }) ?? 'Your account is not active.');
