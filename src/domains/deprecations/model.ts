import type { Actor } from '#platform/context.ts';

/** The kinds of credential that use is counted by. `none` is an anonymous caller. */
export type Kind = 'token' | 'oauth_token' | 'session' | 'job_token' | 'password' | 'none';

/** Whose use it is. */
export interface Caller {
  readonly kind: Kind;
  /**
   * The id of a personal access token, the family of an OAuth token (which stays when it is refreshed), or the id of the
   * holder. Empty for anonymous callers.
   */
  readonly credential: string;
  readonly holder_id: number | null;
}

/** Sessions and jobs come and go, so their use is counted by user. */
export const callerOf = ({ userId, credential }: Pick<Actor, 'userId' | 'credential'>): Caller => {
  if (!credential && userId === null) return ANONYMOUS;
  if (!credential) return { kind: 'password', credential: String(userId), holder_id: userId };
  const { kind, id, originId, holderId } = credential;
  const name = kind === 'token' ? String(id) : kind === 'oauth_token' ? (originId ?? String(id)) : String(holderId);
  return { kind, credential: name, holder_id: holderId };
};

/** Anonymous callers. */
export const ANONYMOUS: Caller = { kind: 'none', credential: '', holder_id: null };

/** How long counts are kept. */
export const KEPT_DAYS = 90;
/** The oldest counts beyond this number of rows are deleted early. */
export const MAX_ROWS = 500_000;
