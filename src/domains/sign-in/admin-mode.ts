import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type Proof, proven } from './enrolment.ts';
import { adminModeEntered, adminModeLeft } from './events.ts';
import { VALUE_LENGTH } from './sessions.ts';
import { verifySecondFactor } from './two-factor.ts';

/** How long a session stays in admin mode. Use does not extend it. */
export const ADMIN_MODE_HOURS = 6;

/** The caller's part in admin mode, for the pages. */
export interface AdminMode {
  /** Whether the setting `admin_mode` is on and the caller is an administrator. */
  readonly concerns: boolean;
  /** Whether this session has entered it. */
  readonly entered: boolean;
  readonly twoFactor: boolean;
}

export const getAdminMode = async (ctx: Context): Promise<AdminMode> => {
  const { admin_mode } = await getSettings(ctx);
  const user = await ctx.db
    .selectFrom('users')
    .select(['is_admin', 'two_factor_enabled'])
    .where('id', '=', requireUser(ctx))
    .executeTakeFirstOrThrow();
  return {
    concerns: admin_mode && user.is_admin,
    entered: ctx.actor.isAdmin,
    twoFactor: user.two_factor_enabled,
  };
};

/** The same for those who have entered it or can. @throws DomainError `forbidden` for others */
export const getAdminModeToEnter = async (ctx: Context): Promise<AdminMode> => {
  const mode = await getAdminMode(ctx);
  if (!mode.entered && !mode.concerns) throw forbidden();
  return mode;
};

/**
 * Gives the caller's session the rights of an administrator for `ADMIN_MODE_HOURS`. Requires the password, and a code
 * if the account has a second factor. Returns a new value for the session cookie: a value that was stolen before must not
 * gain these rights.
 *
 * @throws `forbidden` for others; `invalid` when the password or code is wrong; `too_many_requests`
 */
export const enterAdminMode = async (ctx: Context, { password, code }: Proof): Promise<string> => {
  const { concerns, twoFactor } = await getAdminMode(ctx);
  const { credential } = ctx.actor;
  if (!concerns || credential?.kind !== 'session') throw forbidden();
  return proven(ctx, password, async (tx, userId) => {
    if (twoFactor && !(await verifySecondFactor(tx, userId, code))) return null;
    const value = randomToken(VALUE_LENGTH);
    const { numUpdatedRows } = await tx.db
      .updateTable('sessions')
      .set({ digest: digestToken(value), admin_until: sql`now() + make_interval(hours => ${ADMIN_MODE_HOURS})` })
      .where('id', '=', credential.id)
      .where('user_id', '=', userId)
      .executeTakeFirst();
    if (numUpdatedRows === 0n) throw unauthenticated();
    tx.emit(adminModeEntered, eventOf(credential.id, userId));
    return value;
  });
};

/** Ends admin mode in the caller's session. Repeating it is not an error. */
export const leaveAdminMode = async (ctx: Context): Promise<void> => {
  const userId = requireUser(ctx);
  const { credential } = ctx.actor;
  if (credential?.kind !== 'session') return;
  await ctx.transaction(async (tx) => {
    const { numUpdatedRows } = await tx.db
      .updateTable('sessions')
      .set({ admin_until: null })
      .where('id', '=', credential.id)
      .where('admin_until', '>', sql<string>`now()`)
      .executeTakeFirst();
    if (numUpdatedRows > 0n) tx.emit(adminModeLeft, eventOf(credential.id, userId));
  });
};

const eventOf = (id: number, userId: number) => ({
  subject: { type: 'Session', id },
  user_ids: [userId],
  payload: { id, user_id: userId },
});
