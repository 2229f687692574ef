import type { Tx } from '#platform/context.ts';
import { sessionRevoked } from './events.ts';

// Defined here and not in sign-in, because closing an account ends its sessions too.

/**
 * Ends the sessions of a user, emits an event for each, and returns the number that ended. `only` and `except` (ids)
 * narrow the selection. Every process refuses the sessions as soon as the transaction commits.
 */
export const endSessions = async (
  tx: Tx,
  userId: number,
  { only, except }: { readonly only?: number | undefined; readonly except?: number | undefined } = {},
): Promise<number> => {
  let query = tx.db.deleteFrom('sessions').where('user_id', '=', userId);
  if (only !== undefined) query = query.where('id', '=', only);
  if (except !== undefined) query = query.where('id', '<>', except);
  const ended = await query.returning(['id', 'user_id', 'ip', 'user_agent']).execute();
  for (const payload of ended) {
    tx.emit(sessionRevoked, { subject: { type: 'Session', id: payload.id }, user_ids: [userId], payload });
  }
  return ended.length;
};

/** Ends all sessions except the one that this request uses, if any. */
export const endOtherSessions = (tx: Tx, userId: number): Promise<number> => {
  const { credential } = tx.actor;
  return endSessions(tx, userId, { except: credential?.kind === 'session' ? credential.id : undefined });
};
