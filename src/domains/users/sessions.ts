import type { Tx } from '#platform/context.ts';
import { sessionRevoked } from './events.ts';

// Sessions are sign-in's; how they end stands here, left of it, because accounts that are closed end them too.

/**
 * Ends the sessions of a user before their time, all of them or as `only` and `except` (ids) say, and tells of each;
 * says how many there were. They are refused from the commit on, in every process.
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

/** The same for all but the session that this request came with, if it came with one. */
export const endOtherSessions = (tx: Tx, userId: number): Promise<number> => {
  const { credential } = tx.actor;
  return endSessions(tx, userId, { except: credential?.kind === 'session' ? credential.id : undefined });
};
