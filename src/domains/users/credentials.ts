import { type RawBuilder, sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { networkOf } from '#platform/caller/network.ts';
import { forget, hit, observe, type RateRule } from '#platform/caller/rate-limit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, forbidden, unauthenticated } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { isStorable } from '#platform/values/storable.ts';
import { refusalOf } from './model.ts';
import { verifyPassword } from './password.ts';

/** An account whose password was right. */
export interface CheckedAccount {
  readonly id: number;
  readonly username: string;
  readonly email: string;
  readonly state: string;
  readonly is_admin: boolean;
  readonly external: boolean;
  readonly is_auditor: boolean;
  readonly user_type: string;
  /** The version of the terms that the user has accepted. */
  readonly accepted_terms: string | null;
  /** The caller must ask for a second factor. A caller that cannot do so must refuse the account. */
  readonly two_factor_enabled: boolean;
  /** The user must choose a new password before anything else. */
  readonly password_change_required: boolean;
  /** Identifies the password that was right (`passwordMark`). */
  readonly password_mark: string;
}

/** Identifies a password by its digest, so that a later step can tell whether it has been changed. */
export const passwordMark = (passwordHash: string | null | undefined): string =>
  digestToken(passwordHash ?? '').toString('base64url');

interface PasswordOptions {
  /** Accepts deactivated accounts, because a sign-in reactivates them. */
  readonly deactivatedToo?: boolean;
}

type CheckContext = Pick<Context, 'db' | 'services' | 'client'>;

/**
 * Checks a login (user name, primary address or another confirmed address) and password, and returns the account.
 * Failures count against the account and the client address. After too many failures all attempts are refused for a
 * while, including correct ones. Neither the response nor its duration distinguishes an unknown login from a wrong
 * password.
 *
 * @throws `unauthenticated`; `too_many_requests` with `retryAfterSeconds`; `forbidden` with the reason, after a correct
 * password, when the account is closed or its address is unconfirmed
 */
export const checkPassword = async (
  ctx: CheckContext,
  { login, password }: { readonly login: string; readonly password: string },
  { deactivatedToo = false }: PasswordOptions = {},
): Promise<CheckedAccount> => {
  const guard = await guardOf(ctx);
  await guard.requireOpen();
  const account = await findAccount(ctx, login);
  const count = account ? countOfAccount(ctx, account.id) : countOfStranger(ctx, login);
  await requireUnlocked(count);
  const right = await verifyPassword(account?.password_hash ?? null, password);
  // Concurrent attempts may have failed during the check. Checking the locks again keeps a burst of guesses from
  // slipping through, and keeps the answer from revealing which guess was right.
  await Promise.all([guard.requireOpen(), requireUnlocked(count)]);
  if (!right || !account) {
    await Promise.all([count.fail(guard.rule), guard.fail()]);
    throw unauthenticated();
  }
  const { password_hash, confirmed_at, ...checked } = account;
  const { send_user_confirmation_email: confirming } = await getSettings(ctx);
  const refusal = deactivatedToo && account.state === 'deactivated' ? null : refusalOf(account);
  if (refusal !== null) throw forbidden(refusal);
  if (confirming && confirmed_at === null) throw forbidden(UNCONFIRMED);
  // With a second factor the count is kept until the factor succeeds too. Otherwise the password would buy unlimited
  // guesses at the factor.
  if (!account.two_factor_enabled) await forgetFailures(ctx, account.id);
  return { ...checked, password_mark: passwordMark(password_hash) };
};

/**
 * Rate-limits guesses at another credential, such as a one-time code. `check` runs only while the account is not
 * locked, and its failures count like wrong passwords. Codes are checked fast, and a correct one may already have taken
 * effect, so each attempt counts as a failure before it is checked. A burst of thousands therefore gets no more checks
 * than the limit allows.
 *
 * @throws `unauthenticated`, `too_many_requests`
 */
export const checkGuarded = async (ctx: CheckContext, userId: number, check: () => Promise<boolean>): Promise<void> => {
  const guard = await guardOf(ctx);
  await guard.requireOpen();
  const count = countOfAccount(ctx, userId);
  if (!(await count.failUnlessLocked(guard.rule))) throw tooMany((await count.lockedFor()) ?? 1);
  let right: boolean;
  try {
    right = await check();
  } catch (error) {
    await count.takeBack(guard.rule);
    throw error;
  }
  if (right) return forgetFailures(ctx, userId);
  await guard.fail();
  throw unauthenticated();
};

/**
 * Rate-limits guesses at passwords that another provider checks. When `check` returns null, the failure counts against
 * the login and the client address.
 *
 * @throws `unauthenticated`, `too_many_requests`
 */
export const checkGuardedLogin = async <T>(
  ctx: CheckContext,
  login: string,
  check: () => Promise<T | null>,
): Promise<T> => {
  const guard = await guardOf(ctx);
  const count = countOfStranger(ctx, login);
  await Promise.all([guard.requireOpen(), requireUnlocked(count)]);
  const found = await check();
  await Promise.all([guard.requireOpen(), requireUnlocked(count)]);
  if (found !== null) {
    await count.reset();
    return found;
  }
  await Promise.all([count.fail(guard.rule), guard.fail()]);
  throw unauthenticated();
};

const UNCONFIRMED = 'You have to confirm your email address before continuing.';
const MAX_LOGIN_LENGTH = 320;

interface AccountRow extends Omit<CheckedAccount, 'password_mark'> {
  readonly password_hash: string | null;
  readonly confirmed_at: string | null;
}

const findAccount = async ({ db }: CheckContext, login: string): Promise<AccountRow | null> => {
  if (login === '' || login.length > MAX_LOGIN_LENGTH || !isStorable(login)) return null;
  const { rows } = await sql<AccountRow>`
    select id, username, email, state, is_admin, is_auditor, external, user_type, accepted_terms, two_factor_enabled,
      password_change_required, password_hash, confirmed_at
    from users
    where user_type = 'human' and id in (
      select id from users where lower(username) = lower(${login})
      union all select id from users where lower(email) = lower(${login})
      union all select user_id from emails where lower(email) = lower(${login}) and confirmed_at is not null)
    order by lower(username) = lower(${login}) desc, lower(email) = lower(${login}) desc limit 1`.execute(db);
  return rows[0] ?? null;
};

/** The failure counter of one login. */
interface FailureCount {
  /** Seconds until the lock ends, or null when there is no lock. */
  lockedFor(): Promise<number | null>;
  fail(rule: RateRule): Promise<void>;
}

interface AccountCount extends FailureCount {
  /** Counts a failure if the account is not locked. Returns whether it counted. */
  failUnlessLocked(rule: RateRule): Promise<boolean>;
  /** Takes back one failure, and the lock if that failure caused it. */
  takeBack(rule: RateRule): Promise<void>;
}

const countOfAccount = ({ db }: CheckContext, userId: number): AccountCount => {
  const count = async ({ limit, seconds }: RateRule, where: RawBuilder<unknown>): Promise<boolean> => {
    const { numAffectedRows } = await sql`
      update users set
        -- counting starts again after a lock has expired
        failed_attempts = case when locked_until <= now() then 1 else failed_attempts + 1 end,
        locked_until = case
          when (case when locked_until <= now() then 1 else failed_attempts + 1 end) >= ${limit}
            then coalesce(nullif(greatest(locked_until, now()), now()), now() + make_interval(secs => ${seconds}))
          when locked_until <= now() then null
          else locked_until end
      where id = ${userId} and ${where}`.execute(db);
    return Number(numAffectedRows) > 0;
  };
  return {
    lockedFor: async () => {
      const { rows } = await sql<{ seconds: number }>`
        select ceil(extract(epoch from locked_until - now()))::integer as seconds
        from users where id = ${userId} and locked_until > now()`.execute(db);
      return rows[0]?.seconds ?? null;
    },
    fail: async (rule) => {
      await count(rule, sql`true`);
    },
    failUnlessLocked: (rule) => count(rule, sql`(locked_until is null or locked_until <= now())`),
    takeBack: async ({ limit }) => {
      await sql`
        update users set failed_attempts = greatest(failed_attempts - 1, 0),
          locked_until = case when failed_attempts > ${limit} then locked_until end
        where id = ${userId}`.execute(db);
    },
  };
};

/** How long failures for an unknown login are kept, in seconds. Failures of an account are kept until a success. */
const STRANGER_SECONDS = 7 * 86_400;

/** Unknown logins are locked like known ones, so that a lock does not reveal whether an account exists. */
const countOfStranger = ({ services }: CheckContext, login: string): FailureCount & { reset(): Promise<void> } => {
  const key = `sign-in:login:${digestToken(login.toLowerCase()).toString('base64url')}`;
  const lock = `${key}:lock`;
  const lockedFor = async (): Promise<number | null> => {
    const { observed, retryAfterSeconds } = await observe(services, lock, { limit: 1, seconds: 1 });
    return observed > 0 ? retryAfterSeconds : null;
  };
  return {
    lockedFor,
    fail: async ({ limit, seconds }) => {
      if ((await lockedFor()) !== null) return;
      const { observed } = await hit(services, key, { limit, seconds: STRANGER_SECONDS });
      if (observed < limit) return;
      await hit(services, lock, { limit: 1, seconds });
      await forget(services, key);
    },
    reset: () => forget(services, key),
  };
};

const requireUnlocked = async (count: FailureCount): Promise<void> => {
  const seconds = await count.lockedFor();
  if (seconds !== null) throw tooMany(seconds);
};

const forgetFailures = async ({ db }: CheckContext, userId: number): Promise<void> => {
  await sql`
    update users set failed_attempts = 0, locked_until = null
    where id = ${userId} and (failed_attempts > 0 or locked_until is not null)`.execute(db);
};

/** Rate-limits the client address, because an attacker can try many accounts from one address. */
const guardOf = async ({ services, client }: CheckContext) => {
  const settings = await getSettings({ services });
  const seconds = settings.failed_login_attempts_unlock_period_in_minutes * 60;
  const ofAddress = { limit: settings.max_login_attempts_per_address, seconds };
  const key = client.ip === null ? null : `sign-in:address:${networkOf(client.ip)}`;
  return {
    rule: { limit: settings.max_login_attempts, seconds },
    requireOpen: async (): Promise<void> => {
      if (key === null) return;
      const { observed, retryAfterSeconds } = await observe(services, key, ofAddress);
      if (observed >= ofAddress.limit) throw tooMany(retryAfterSeconds);
    },
    fail: async (): Promise<void> => {
      if (key !== null) await hit(services, key, ofAddress);
    },
  };
};

const tooMany = (retryAfterSeconds: number): DomainError =>
  new DomainError('too_many_requests', 'There were too many failed attempts. Try again later.', { retryAfterSeconds });
