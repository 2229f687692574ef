import { sql } from 'kysely';
import { groupGrace } from '#domains/access/two-factor.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { mailSecurityNotice } from '#domains/users/account-mails.ts';
import { checkGuarded } from '#domains/users/credentials.ts';
import { verifyPassword } from '#domains/users/password.ts';
import { requireUser } from '#domains/users/policy.ts';
import { type ApplicationProof, requireProofOfApplication } from '#domains/users/proof.ts';
import { getUser } from '#domains/users/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, DomainError, forbidden, invalid } from '#platform/errors.ts';
import { twoFactorDisabled, twoFactorEnabled } from './events.ts';
import { endOtherSessions } from './sessions.ts';
import {
  countRecoveryCodes,
  newSecret,
  openSecret,
  replaceRecoveryCodes,
  sealSecret,
  stepOf,
  totpOf,
  verifySecondFactor,
} from './two-factor.ts';

export type SecondFactor =
  | { readonly enabled: true; readonly recoveryCodesLeft: number }
  /** Not enabled yet. `uri` is the content of the QR code for the authenticator. */
  | { readonly enabled: false; readonly secret: string; readonly uri: string };

/**
 * Returns the caller's second factor. Before it is enabled, returns the secret to enrol with, which stays the same
 * until then.
 */
export const getSecondFactor = async (ctx: Context): Promise<SecondFactor> => {
  const userId = requireUser(ctx);
  // If two pages open at once, both show the secret that was stored first.
  const { rows } = await sql<{ username: string; two_factor_enabled: boolean; otp_secret: Buffer }>`
    update users set otp_secret = coalesce(otp_secret, ${sealSecret(ctx, userId, newSecret())})
    where id = ${userId} returning username, two_factor_enabled, otp_secret`.execute(ctx.db);
  const [user] = rows;
  if (!user) throw new Error('The caller has no account');
  if (user.two_factor_enabled) {
    return { enabled: true, recoveryCodesLeft: await countRecoveryCodes(ctx, userId) };
  }
  const secret = openSecret(ctx, userId, user.otp_secret);
  return { enabled: false, secret, uri: totpOf(ctx, { username: user.username, secret }).toString() };
};

/**
 * The credentials that an important change requires: the account's password, and an authenticator code or recovery
 * code.
 */
export interface Proof {
  readonly password: string;
  readonly code: string;
}

/**
 * Enables the second factor with the first code for the secret that `getSecondFactor` showed. Ends all other sessions,
 * because they were started with a password only. Returns the recovery codes, which are shown only once.
 *
 * @throws `invalid` when it is already enabled, or the password or code is wrong; `too_many_requests`
 */
export const enableTwoFactor = (ctx: Context, { password, code }: Proof): Promise<readonly string[]> =>
  proven(ctx, password, async (tx, userId) => {
    const user = await lockFactor(tx, userId);
    if (user.two_factor_enabled) throw invalid({ base: ['Two-factor authentication is already enabled'] });
    const step = user.otp_secret && stepOf(tx, openSecret(tx, userId, user.otp_secret), code);
    if (step === null) return null;
    await tx.db
      .updateTable('users')
      .set({ two_factor_enabled: true, otp_used_step: step, updated_at: sql`now()` })
      .where('id', '=', userId)
      .execute();
    const codes = await replaceRecoveryCodes(tx, userId);
    await endOtherSessions(tx, userId);
    tx.emit(twoFactorEnabled, eventFor(userId));
    await mailSecurityNotice(tx, userId, {
      subject: 'Two-factor authentication was enabled',
      what: 'Signing in to your account now requires a code from your authenticator.',
    });
    return codes;
  });

/** Replaces the recovery codes and invalidates the old ones. @throws as `disableTwoFactor` */
export const regenerateRecoveryCodes = (ctx: Context, proof: Proof): Promise<readonly string[]> =>
  proven(ctx, proof.password, async (tx, userId) => {
    await requireInForce(tx, userId);
    if (!(await verifySecondFactor(tx, userId, proof.code))) return null;
    await mailSecurityNotice(tx, userId, {
      subject: 'Your recovery codes were replaced',
      what: 'Your account has new recovery codes. The old ones no longer work.',
    });
    return replaceRecoveryCodes(tx, userId);
  });

/**
 * Disables the caller's second factor.
 *
 * @throws `invalid` when there is none, or the password or code is wrong; `too_many_requests`
 */
export const disableTwoFactor = async (ctx: Context, proof: Proof): Promise<void> => {
  await proven(ctx, proof.password, async (tx, userId) => {
    await requireInForce(tx, userId);
    if (!(await verifySecondFactor(tx, userId, proof.code))) return null;
    await forgetFactor(tx, userId);
    return true;
  });
};

/**
 * Disables the second factor of a user who lost it (specification 2 §4.1). Administrators only, and not for an
 * administrator's account. OAuth applications must send `current_password`.
 *
 * @throws `unauthenticated`, `forbidden`, `not_found` (User), `bad_request` when there is none
 */
export const disableTwoFactorOf = async (ctx: Context, userId: number, proof: ApplicationProof = {}): Promise<void> => {
  requireAdministrator(ctx);
  await requireProofOfApplication(ctx, proof);
  await ctx.transaction(async (tx) => {
    const user = await getUser(tx, userId);
    if (user.is_admin) throw forbidden('Two-factor authentication of administrators cannot be disabled here');
    const { two_factor_enabled } = await lockFactor(tx, userId);
    if (!two_factor_enabled) throw badRequest('Two-factor authentication is not enabled for this user');
    await forgetFactor(tx, userId);
    // A user who lost the factor gets a new grace period. A user who disables their own does not, or they could renew
    // it forever.
    await tx.db.updateTable('users').set({ two_factor_grace_started_at: null }).where('id', '=', userId).execute();
  });
};

const forgetFactor = async (tx: Tx, userId: number): Promise<void> => {
  await tx.db
    .updateTable('users')
    .set({
      two_factor_enabled: false,
      otp_secret: null,
      otp_used_step: null,
      updated_at: sql`now()`,
    })
    .where('id', '=', userId)
    .execute();
  await tx.db.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
  tx.emit(twoFactorDisabled, eventFor(userId));
  await mailSecurityNotice(tx, userId, {
    subject: 'Two-factor authentication was disabled',
    what: 'Signing in to your account now requires only your password.',
  });
};

const eventFor = (userId: number) => ({
  subject: { type: 'User', id: userId },
  user_ids: [userId],
  payload: { user_id: userId },
});

const lockFactor = (tx: Tx, userId: number) =>
  tx.db
    .selectFrom('users')
    .select(['two_factor_enabled', 'otp_secret'])
    .where('id', '=', userId)
    .forUpdate()
    .executeTakeFirstOrThrow();

const requireInForce = async (tx: Tx, userId: number): Promise<void> => {
  const { two_factor_enabled } = await lockFactor(tx, userId);
  if (!two_factor_enabled) throw invalid({ base: ['Two-factor authentication is not enabled'] });
};

const WRONG = 'The password or the code is wrong';

/**
 * Runs a change that the caller's password and the check inside `change` allow. `change` returns null for a wrong code.
 * Failures of both kinds count against the account, and the error does not reveal which one was wrong.
 */
export const proven = async <T>(
  ctx: Context,
  password: string,
  change: (tx: Tx, userId: number) => Promise<T | null>,
): Promise<T> => {
  const userId = requireUser(ctx);
  let done: T | null = null;
  try {
    await checkGuarded(ctx, userId, async () => {
      const row = await ctx.db.selectFrom('users').select('password_hash').where('id', '=', userId).executeTakeFirst();
      if (!(await verifyPassword(row?.password_hash ?? null, password))) return false;
      done = await ctx.transaction((tx) => change(tx, userId));
      return done !== null;
    });
  } catch (error) {
    const refused = error instanceof DomainError && error.code === 'unauthenticated';
    throw refused ? invalid({ current_password: [WRONG], code: [WRONG] }) : error;
  }
  if (done === null) throw new Error('A proven change returned no result');
  return done;
};

export interface Demand {
  /** The end of the grace period, in which pages still open without a second factor. Null when it has passed. */
  readonly graceUntil: Date | null;
}

/**
 * Returns the demand for a second factor, when the settings or a group of the user require one and the user has none.
 * Returns null otherwise. The grace period starts with the first call. Requests with tokens get no demand, because a
 * token is not a sign-in.
 */
export const secondFactorDemand = async (ctx: Context): Promise<Demand | null> => {
  const { userId, isAdmin, needsAdminMode, credential } = ctx.actor;
  if (userId === null || credential?.kind !== 'session') return null;
  const settings = await getSettings(ctx);
  const isAsked =
    settings.require_two_factor_authentication ||
    (settings.require_admin_two_factor_authentication && (isAdmin || needsAdminMode));
  const ofGroups = await groupGrace(ctx, userId);
  if (!isAsked && ofGroups === null) return null;
  // The shortest grace period applies.
  const hours = Math.min(
    isAsked ? settings.two_factor_grace_period : Number.POSITIVE_INFINITY,
    ofGroups ?? Number.POSITIVE_INFINITY,
  );
  const find = () =>
    ctx.db
      .selectFrom('users')
      .select(['two_factor_enabled', 'two_factor_grace_started_at'])
      .select(sql<string>`two_factor_grace_started_at + make_interval(hours => ${hours})`.as('until'))
      .select(sql<boolean>`two_factor_grace_started_at + make_interval(hours => ${hours}) <= now()`.as('over'))
      .where('id', '=', userId)
      .executeTakeFirst();
  let user = await find();
  if (!user || user.two_factor_enabled) return null;
  if (user.two_factor_grace_started_at === null) {
    await sql`
      update users set two_factor_grace_started_at = now()
      where id = ${userId} and two_factor_grace_started_at is null`.execute(ctx.db);
    user = await find();
  }
  return { graceUntil: !user || user.over ? null : new Date(user.until) };
};

/** Whether the user of this session must enrol before anything else opens. */
export const mustEnrol = async (ctx: Context): Promise<boolean> => {
  const demand = await secondFactorDemand(ctx);
  return demand !== null && demand.graceUntil === null;
};

/** Refuses a session whose user must enrol first. @throws `forbidden` */
export const requireEnrolled = async (ctx: Context): Promise<void> => {
  if (await mustEnrol(ctx)) throw forbidden('You must enable two-factor authentication first');
};
