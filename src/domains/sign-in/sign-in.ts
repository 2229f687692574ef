import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import { mailSecurityNotice } from '#domains/users/account-mails.ts';
import { passwordErrors } from '#domains/users/attributes.ts';
import { requireClientAddress } from '#domains/users/client-addresses.ts';
import { checkGuarded, checkPassword, passwordMark } from '#domains/users/credentials.ts';
import { refusalOf } from '#domains/users/model.ts';
import { hashPassword, verifyPassword } from '#domains/users/password.ts';
import { setPassword } from '#domains/users/set-password.ts';
import { reactivateUser } from '#domains/users/states.ts';
import { anonymous, type Context, type Tx } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { forbidden, invalid, requireValid, unauthenticated } from '#platform/errors.ts';
import { endOtherSessions, endSession, endSessions, startSession } from './sessions.ts';
import { verifySecondFactor } from './two-factor.ts';
import { agentInWords } from './user-agent.ts';

/**
 * The result of a sign-in step: a session, whose `value` is for the cookie, or one more step. The browser keeps
 * `pending` sealed and returns it with the user's input for that step.
 */
export type SignInStep =
  | { readonly step: 'signed_in'; readonly value: string }
  | { readonly step: 'second_factor' | 'new_password'; readonly pending: string };

/** How long a step may take, in seconds. */
export const STEP_SECONDS = 600;

/**
 * Signs in with a password. Reactivates a deactivated account.
 *
 * @throws as `checkPassword`; `forbidden` when the setting `password_authentication_enabled_for_web` is off
 */
export const signIn = async (
  ctx: Context,
  credentials: { readonly login: string; readonly password: string },
): Promise<SignInStep> => {
  if (!(await getSettings(ctx)).password_authentication_enabled_for_web) throw forbidden(NO_PASSWORDS);
  const account = await checkPassword(ctx, credentials, { deactivatedToo: true });
  const { id, password_mark: mark } = account;
  if (account.two_factor_enabled) return pendingStep(ctx, { step: 'second_factor', user_id: id, mark });
  return afterProof(ctx, id, mark);
};

/**
 * Continues a sign-in after another provider has authenticated the user. It still asks for the second factor, but never
 * for a new password. Reactivates a deactivated account.
 *
 * @throws `forbidden` with the reason when the account is closed
 */
export const signInAs = async (ctx: Context, userId: number): Promise<SignInStep> => {
  const { state, two_factor_enabled } = await ctx.db
    .selectFrom('users')
    .select(['state', 'two_factor_enabled'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow();
  const refusal = state === 'deactivated' ? null : refusalOf({ state });
  if (refusal !== null) throw forbidden(refusal);
  const mark = await markOf(ctx, userId);
  if (two_factor_enabled) return pendingStep(ctx, { step: 'second_factor', user_id: userId, mark });
  return { step: 'signed_in', value: await enter(ctx, userId, mark) };
};

export const NO_PASSWORDS = 'Signing in with a password is disabled on this hub.';

/**
 * Continues with an authenticator code or recovery code. Returns null when the step has expired or the password has
 * changed since; the user must then start again.
 *
 * @throws `unauthenticated` for a wrong code, `too_many_requests`
 */
export const signInBySecondFactor = async (ctx: Context, pending: string, code: string): Promise<SignInStep | null> => {
  const step = await readPending(ctx, 'second_factor', pending);
  if (!step) return null;
  const { user_id: userId, mark } = step;
  await checkGuarded(ctx, userId, () => ctx.transaction((tx) => verifySecondFactor(tx, userId, code)));
  return afterProof(ctx, userId, mark);
};

/**
 * Continues with the new password that the user had to choose. Returns null as `signInBySecondFactor` does.
 *
 * @throws `invalid` by attribute
 */
export const signInWithNewPassword = async (
  ctx: Context,
  pending: string,
  password: string,
): Promise<SignInStep | null> => {
  const step = await readPending(ctx, 'new_password', pending);
  if (!step) return null;
  const { user_id: userId, mark } = step;
  const digest = await digestOfNewPassword(ctx, userId, password);
  const own = await contextOfUser(ctx, userId);
  const isSet = await own.transaction(async (tx) => {
    if ((await lockPassword(tx, userId)) !== mark) return false;
    await setPassword(tx, userId, digest);
    await endSessions(tx, userId);
    return true;
  });
  return isSet ? { step: 'signed_in', value: await enter(ctx, userId, passwordMark(digest)) } : null;
};

/**
 * Changes the caller's password and ends their other sessions.
 *
 * @throws `invalid` by attribute, `too_many_requests` after too many wrong passwords
 */
export const changeOwnPassword = async (
  ctx: Context,
  { current, password }: { readonly current: string; readonly password: string },
): Promise<void> => {
  const { userId, username } = ctx.actor;
  if (userId === null || username === null) throw unauthenticated();
  const notRight = () => invalid({ current_password: ['is not right'] });
  const { password_mark } = await checkPassword(ctx, { login: username, password: current }).catch((error: unknown) => {
    throw isUnauthenticated(error) ? notRight() : error;
  });
  const digest = await digestOfNewPassword(ctx, userId, password);
  await ctx.transaction(async (tx) => {
    if ((await lockPassword(tx, userId)) !== password_mark) throw notRight();
    await setPassword(tx, userId, digest);
    await endOtherSessions(tx, userId);
  });
};

/** Records the time and client address of the sign-in on the account. */
const recordSignIn = async (tx: Tx, userId: number): Promise<void> => {
  const { ip } = tx.client;
  await sql`
    update users set sign_in_count = sign_in_count + 1, last_activity_on = current_date,
      last_sign_in_at = coalesce(current_sign_in_at, now()), last_sign_in_ip = coalesce(current_sign_in_ip, ${ip}),
      current_sign_in_at = now(), current_sign_in_ip = ${ip}
    where id = ${userId}`.execute(tx.db);
};

/** Starts the session, unless the user must choose a new password first. */
const afterProof = async (ctx: Context, userId: number, mark: string): Promise<SignInStep> => {
  const { password_change_required } = await ctx.db
    .selectFrom('users')
    .select('password_change_required')
    .where('id', '=', userId)
    .executeTakeFirstOrThrow();
  if (password_change_required) return pendingStep(ctx, { step: 'new_password', user_id: userId, mark });
  return { step: 'signed_in', value: await enter(ctx, userId, mark) };
};

/**
 * Starts the session. A change of the password ends all sessions, so a sign-in with the former one must not start another
 * after that.
 *
 * @throws `unauthenticated` if the password is no longer that of the mark, `forbidden`
 */
const enter = async (ctx: Context, userId: number, mark: string): Promise<string> => {
  await requireClientAddress(ctx.services, userId, ctx.client.ip);
  // Ends the previous session of this browser, which may belong to another user.
  await endSession(ctx);
  const own = await contextOfUser(ctx, userId);
  return own.transaction(async (tx) => {
    if ((await lockPassword(tx, userId)) !== mark) throw unauthenticated();
    await reactivateUser(tx, userId);
    const { state } = await tx.db
      .selectFrom('users')
      .select('state')
      .where('id', '=', userId)
      .executeTakeFirstOrThrow();
    const refusal = refusalOf({ state });
    if (refusal !== null) throw forbidden(refusal);
    await mailNewAddress(tx, userId);
    await recordSignIn(tx, userId);
    const { value } = await startSession(tx, userId);
    return value;
  });
};

/** Returns the request's context with the user who has just authenticated as the actor, so that events name them. */
const contextOfUser = async (ctx: Context, userId: number): Promise<Context> => {
  const user = await ctx.db
    .selectFrom('users')
    .select(['username', 'external'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow();
  const actor = { ...anonymous, userId, username: user.username, isExternal: user.external };
  return createContextFactory(ctx.services)({ ...ctx, actor });
};

const mailNewAddress = async (tx: Tx, userId: number): Promise<void> => {
  const { ip, userAgent } = tx.client;
  if (ip === null || !(await getSettings(tx)).notify_on_unknown_sign_in) return;
  const { rows } = await sql<{ known: boolean }>`
    select sign_in_count = 0 or ${ip} in (current_sign_in_ip, last_sign_in_ip)
      or exists (select from sessions s where s.user_id = users.id and s.ip = ${ip}) as known
    from users where id = ${userId}`.execute(tx.db);
  if (rows[0]?.known) return;
  const at = tx.clock.now().toISOString().slice(0, 16).replace('T', ' ');
  await mailSecurityNotice(tx, userId, {
    subject: 'New sign-in to your account from an unknown address',
    what: `there was a sign-in to your account from an address that we have not seen before: ${ip} (${agentInWords(userAgent)}), on ${at} UTC.`,
  });
};

const digestOfNewPassword = async (ctx: Context, userId: number, password: string): Promise<string> => {
  const { minimum_password_length } = await getSettings(ctx);
  const errors = passwordErrors(password, minimum_password_length);
  requireValid(errors);
  const { password_hash } = await passwordOf(ctx, userId);
  if (password_hash !== null && (await verifyPassword(password_hash, password))) {
    throw invalid({ password: ['must differ from the current password'] });
  }
  return hashPassword(password);
};

const passwordOf = (ctx: Context, userId: number) =>
  ctx.db.selectFrom('users').select('password_hash').where('id', '=', userId).executeTakeFirstOrThrow();

const pendingSchema = z.object({
  step: z.enum(['second_factor', 'new_password']),
  user_id: z.number(),
  /** Milliseconds since 1970. */
  until: z.number(),
  /** Identifies the password that was checked. The step expires when the password changes. */
  mark: z.string(),
});
type Pending = z.output<typeof pendingSchema>;

const pendingStep = (ctx: Context, given: Omit<Pending, 'until'>): SignInStep => {
  const until = ctx.clock.now().getTime() + STEP_SECONDS * 1_000;
  const pending: Pending = { ...given, until };
  return { step: given.step, pending: JSON.stringify(pending) };
};

const readPending = async (ctx: Context, step: Pending['step'], text: string): Promise<Pending | null> => {
  const pending = pendingSchema.parse(JSON.parse(text));
  if (pending.step !== step || pending.until < ctx.clock.now().getTime()) return null;
  return (await markOf(ctx, pending.user_id)) === pending.mark ? pending : null;
};

/** A deleted account yields a mark that no step was ever given. */
const markOf = async (ctx: Context, userId: number): Promise<string> => {
  const row = await ctx.db.selectFrom('users').select('password_hash').where('id', '=', userId).executeTakeFirst();
  return passwordMark(row?.password_hash);
};

/** Keeps the password from being changed until the transaction ends, and returns its mark. */
const lockPassword = async (tx: Tx, userId: number): Promise<string> => {
  await tx.db.selectFrom('users').select('id').where('id', '=', userId).forUpdate().execute();
  return markOf(tx, userId);
};

const isUnauthenticated = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'unauthenticated';
