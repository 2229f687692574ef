import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { sessionCreated, sessionRevoked } from './events.ts';

/** A session as its user sees it. The value of the cookie is never stored, only its digest. */
export interface SessionRow {
  readonly id: number;
  readonly user_id: number;
  readonly ip: string | null;
  readonly user_agent: string | null;
  /** When the user last authenticated. */
  readonly authenticated_at: string;
  readonly last_used_at: string;
  readonly expires_at: string;
  readonly created_at: string;
  /** Until when it has the rights of an administrator, while admin mode is on. */
  readonly admin_until: string | null;
}

const sessionColumns = [
  'id',
  'user_id',
  'ip',
  'user_agent',
  'authenticated_at',
  'last_used_at',
  'expires_at',
  'created_at',
  'admin_until',
] as const;

/** 43 base64url characters carry 258 bits. */
export const VALUE_LENGTH = 43;
const MAX_USER_AGENT = 500;

/**
 * Starts a session for a user who has just authenticated. `value` is for the cookie `sessionCookieName` and is returned
 * only here. The session expires when it is unused for the time in the setting `session_expire_delay`.
 */
export const startSession = async (
  tx: Tx,
  userId: number,
): Promise<{ readonly id: number; readonly value: string }> => {
  const { session_expire_delay: minutes } = await getSettings(tx);
  const value = randomToken(VALUE_LENGTH);
  const row = await tx.db
    .insertInto('sessions')
    .values({
      user_id: userId,
      digest: digestToken(value),
      ip: tx.client.ip,
      user_agent: tx.client.userAgent?.toWellFormed().slice(0, MAX_USER_AGENT) ?? null,
      expires_at: sql`now() + make_interval(mins => ${minutes})`,
    })
    .returning(sessionColumns)
    .executeTakeFirstOrThrow();
  const { id, user_id, ip, user_agent } = row;
  tx.emit(sessionCreated, {
    subject: { type: 'Session', id },
    user_ids: [userId],
    payload: { id, user_id, ip, user_agent },
  });
  return { id, value };
};

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

/** Ends the session of this request, if there is one. */
export const endSession = async (ctx: Context): Promise<void> => {
  const { credential, userId } = ctx.actor;
  if (credential?.kind !== 'session' || userId === null) return;
  await ctx.transaction((tx) => endSessions(tx, userId, { only: credential.id }));
};

/** Lists the caller's active sessions, newest first. */
export const listSessions = (ctx: Context): List<SessionRow> => {
  const query = ctx.db
    .selectFrom('sessions')
    .select(sessionColumns)
    .where('user_id', '=', requireUser(ctx))
    .where('expires_at', '>', sql<string>`now()`);
  return listOf(ctx.db, query, [{ by: sql.ref('id'), of: (row) => row.id }], 'desc');
};

/** Ends one of the caller's sessions at once, in every process. @throws `not_found` for any other session */
export const revokeSession = async (ctx: Context, id: number): Promise<void> => {
  const userId = requireUser(ctx);
  const ended = await ctx.transaction((tx) => endSessions(tx, userId, { only: id }));
  if (ended === 0) throw notFound('Session');
};

/** Ends all sessions of the caller except the one of this request. Returns the number of sessions that ended. */
export const revokeOtherSessions = async (ctx: Context): Promise<number> => {
  const userId = requireUser(ctx);
  return ctx.transaction((tx) => endOtherSessions(tx, userId));
};
