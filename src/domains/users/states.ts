import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import type { EventDefinition } from '#platform/events.ts';
import { requireAnotherAdministrator } from './accounts/administrators.ts';
import { endSessionsOf } from './accounts/sessions.ts';
import { lockUser, userPayload } from './accounts/write.ts';
import {
  type UserPayload,
  userActivated,
  userApproved,
  userBanned,
  userBlocked,
  userDeactivated,
  userRejected,
  userUnbanned,
  userUnblocked,
  userUnlocked,
} from './events.ts';
import { mailDeactivated, mailDecision } from './mails/states.ts';
import { isInternal, refusalOf, STATE_MOVES, type StateMoveName, type UserState } from './model.ts';
import { getUser, type UserRow } from './queries.ts';
import { removeAccount } from './removal.ts';

const EVENTS = {
  block: userBlocked,
  unblock: userUnblocked,
  ban: userBanned,
  unban: userUnbanned,
  activate: userActivated,
  deactivate: userDeactivated,
  approve: userApproved,
} as const satisfies Readonly<Record<StateMoveName, EventDefinition<UserPayload>>>;

/**
 * Moves an account to another state by the rules of `STATE_MOVES` (reference: conventions §8). Administrators only, and
 * not for their own account. Closing an account ends its sessions in the same transaction; tokens, git and
 * subscriptions check the state from then on. Approved users get a mail. Where the move allows repetition, repeating it is not an error and
 * returns `moved: false`.
 *
 * @throws `not_found`, `forbidden` with the reason when the state does not allow the move, `conflict` for the last
 * administrator
 */
export const moveUser = async (
  ctx: Context,
  id: number,
  move: StateMoveName,
): Promise<{ readonly user: UserRow; readonly moved: boolean }> => {
  requireAdministrator(ctx);
  return ctx.transaction(async (tx) => {
    const user = await lockUser(tx, id);
    const { to, from, again, refusal } = STATE_MOVES[move];
    const closes = refusalOf({ state: to }) !== null;
    if (closes && id === ctx.actor.userId) throw forbidden(`The API initiating user cannot be ${to} by the API`);
    if (closes && isInternal(user)) throw forbidden(`An internal user cannot be ${to} by the API`);
    if (again && user.state === to) return { user, moved: false };
    const allowed: readonly string[] = from;
    if (!allowed.includes(user.state)) throw forbidden(refusal(user.state));
    if (move === 'deactivate') await requireDormant(tx, user);
    if (closes && user.is_admin) await requireAnotherAdministrator(tx, id);
    if (move === 'approve') mailDecision(tx, user, 'approved');
    return { user: await setState(tx, user, to, EVENTS[move]), moved: true };
  });
};

/**
 * Rejects a pending account and deletes it. The user gets a mail. Administrators only.
 *
 * @throws `not_found`, `forbidden` when the account is not pending approval
 */
export const rejectUser = async (ctx: Context, id: number): Promise<void> => {
  requireAdministrator(ctx);
  await ctx.transaction(async (tx) => {
    const user = await lockUser(tx, id);
    if (user.state !== 'blocked_pending_approval') throw forbidden('User does not have a pending request');
    emitUser(tx, userRejected, user);
    mailDecision(tx, user, 'rejected');
    await removeAccount(tx, id, { hardDelete: false });
  });
};

/**
 * Lifts the lock after too many wrong passwords. Administrators only. Repeating it is not an error. @throws `not_found`
 */
export const unlockUser = async (ctx: Context, id: number): Promise<UserRow> => {
  requireAdministrator(ctx);
  return ctx.transaction(async (tx) => {
    const user = await lockUser(tx, id);
    await tx.db.updateTable('users').set({ failed_attempts: 0, locked_until: null }).where('id', '=', id).execute();
    if (user.locked_until === null) return user;
    const unlocked = { ...user, locked_until: null };
    emitUser(tx, userUnlocked, unlocked);
    return unlocked;
  });
};

/** Reactivates a deactivated account when its user signs in. Accounts in other states stay unchanged. */
export const reactivateUser = async (tx: Tx, id: number): Promise<void> => {
  const user = await lockUser(tx, id);
  if (user.state === 'deactivated') await setState(tx, user, 'active', userActivated);
};

/** Blocks an account in a transaction of a caller who decides that. Closed accounts stay as they are. */
export const blockAccount = async (tx: Tx, id: number): Promise<void> => {
  const user = await lockUser(tx, id);
  if (refusalOf(user) === null) await setState(tx, user, 'blocked', userBlocked);
};

/** The last day on which the user was active, or null. */
const lastSeen = sql`greatest(last_activity_on, current_sign_in_at::date)`;

/** The number of days after which an account that was never used counts as dormant. */
const NEW_FOR_DAYS = 7;
const BATCH = 500;

/**
 * Deactivates users (no administrators, no bots) who have been inactive for as long as the settings say, or who never
 * signed in within a week of their creation. Does nothing unless `deactivate_dormant_users` is on.
 */
export const deactivateDormant = async (ctx: Context): Promise<void> => {
  const settings = await getSettings(ctx);
  if (!settings.deactivate_dormant_users) return;
  for (let found = BATCH; found === BATCH; ) {
    ctx.signal.throwIfAborted();
    found = await ctx.transaction(async (tx) => {
      const { rows } = await sql<{ id: number }>`
        select id from users
        where state = 'active' and user_type = 'human' and not is_admin
          and (${lastSeen} <= current_date - ${settings.deactivate_dormant_users_period}::int
            or ${lastSeen} is null and created_at < now() - make_interval(days => ${NEW_FOR_DAYS}))
        order by id limit ${sql.lit(BATCH)} for update skip locked`.execute(tx.db);
      for (const { id } of rows) await setState(tx, await getUser(tx, id), 'deactivated', userDeactivated);
      return rows.length;
    });
  }
};

const setState = async (
  tx: Tx,
  user: UserRow,
  state: UserState,
  event: EventDefinition<UserPayload>,
): Promise<UserRow> => {
  await tx.db.updateTable('users').set({ state, updated_at: sql`now()` }).where('id', '=', user.id).execute();
  if (refusalOf({ state }) !== null) await endSessionsOf(tx, user.id);
  const moved = await getUser(tx, user.id);
  emitUser(tx, event, moved);
  if (state === 'deactivated') await mailDeactivated(tx, moved);
  return moved;
};

const emitUser = (tx: Tx, event: EventDefinition<UserPayload>, user: UserRow): void =>
  tx.emit(event, { subject: { type: 'User', id: user.id }, user_ids: [user.id], payload: userPayload(user) });

/** Requires that the user was inactive for `deactivate_dormant_users_period` days. @throws `forbidden` */
const requireDormant = async (tx: Tx, { id }: UserRow): Promise<void> => {
  const { deactivate_dormant_users_period: days } = await getSettings(tx);
  const { rows } = await sql`
    select 1 from users where id = ${id}
      and ${lastSeen} > current_date - ${days}::int`.execute(tx.db);
  if (rows.length === 0) return;
  throw forbidden(
    `The user you are trying to deactivate has been active in the past ${days} days and cannot be deactivated`,
  );
};
