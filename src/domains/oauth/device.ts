import { randomInt } from 'node:crypto';
import { sql } from 'kysely';
import { ADMINISTRATOR_SCOPES } from '#domains/tokens/model.ts';
import { requireUser } from '#domains/users/policy.ts';
import { networkOf } from '#platform/caller/network.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';

/** How long a device code is valid, and the polling interval. Both in seconds. */
const LIFETIME = 300;
const INTERVAL = 5;
/** Each early poll adds this many seconds to the interval (RFC 8628 §3.5). */
const SLOWER_BY = 5;

/** Only consonants, to avoid look-alike characters and accidental words (RFC 8628 §6.1). */
const ALPHABET = 'BCDFGHJKLMNPQRSTVWXZ';
const CODE_LENGTH = 8;

/** The device authorization response (RFC 8628 §3.2): the secret for polling, and the code to show to the user. */
export interface DeviceAuthorization {
  readonly device_code: string;
  /** Formatted for display: `BCDF-GHJK`. */
  readonly user_code: string;
  readonly expires_in: number;
  readonly interval: number;
}

/** Starts the device flow for an application. The caller has validated the scopes. */
export const startDevice = async (
  ctx: Context,
  application: { readonly id: number },
  scopes: readonly string[],
): Promise<DeviceAuthorization> => {
  const device_code = randomToken(43);
  const userCode = Array.from({ length: CODE_LENGTH }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join('');
  await ctx.db
    .insertInto('oauth_device_grants')
    .values({
      application_id: application.id,
      digest: digestToken(device_code),
      user_code_digest: digestToken(userCode),
      scopes: [...scopes],
      interval_seconds: INTERVAL,
      expires_at: sql`now() + ${sql.lit(LIFETIME)} * interval '1 second'`,
    })
    .execute();
  return {
    device_code,
    user_code: shownCode(userCode),
    expires_in: LIFETIME,
    interval: INTERVAL,
  };
};

/** The pending request behind a user code. */
export interface DeviceRequest {
  readonly id: number;
  readonly application_id: number;
  readonly scopes: readonly string[];
}

/**
 * Returns the pending request for a user code, or null when it is unknown, expired or already answered. The codes are
 * short, so attempts are rate-limited by account and client address.
 *
 * @throws `unauthenticated`, `too_many_requests`
 */
export const findUserCode = async (ctx: Context, code: string): Promise<DeviceRequest | null> => {
  await guard(ctx, requireUser(ctx));
  const found = await waiting(ctx.db, code).executeTakeFirst();
  return found ?? null;
};

/**
 * Approves or denies the request behind the code, once. Returns null as `findUserCode` does. Callers with a token
 * cannot do this, because they could extend their own permissions.
 *
 * @throws `unauthenticated`, `too_many_requests`, `forbidden`, also when only an administrator may grant the scopes
 */
export const decideDevice = async (ctx: Context, code: string, approve: boolean): Promise<DeviceRequest | null> => {
  const userId = requireUser(ctx);
  const { credential, isAdmin } = ctx.actor;
  if (credential !== null && credential.kind !== 'session') throw forbidden();
  await guard(ctx, userId);
  return ctx.transaction(async ({ db }) => {
    const found = await waiting(db, code).forUpdate().executeTakeFirst();
    if (!found) return null;
    if (approve && !isAdmin && found.scopes.some((scope) => ADMINISTRATOR_SCOPES.has(scope))) {
      throw forbidden('Only administrators can grant these permissions.');
    }
    await db
      .updateTable('oauth_device_grants')
      .set({ state: approve ? 'approved' : 'denied', user_id: userId })
      .where('id', '=', found.id)
      .execute();
    return found;
  });
};

/** The result of a poll: the user to issue tokens for, or an error of RFC 8628 §3.5 and RFC 6749 §5.2. */
export type DevicePoll =
  | { readonly approved: { readonly user_id: number; readonly scopes: readonly string[] } }
  | { readonly error: 'authorization_pending' | 'slow_down' | 'expired_token' | 'access_denied' | 'invalid_grant' };

/**
 * Answers a device that polls for its tokens. Approval is returned once, so issue the tokens in the same transaction.
 * Errors are returned rather than thrown, because the transaction must commit to record an early poll.
 */
export const pollDevice = async (
  { db }: Tx,
  application: { readonly id: number },
  deviceCode: string,
): Promise<DevicePoll> => {
  const grant = await db
    .selectFrom('oauth_device_grants')
    .select([
      'id',
      'application_id',
      'user_id',
      'scopes',
      'state',
      sql<boolean>`exists (select from users u where u.id = user_id and u.state = 'active')`.as('active'),
      sql<boolean>`expires_at <= now()`.as('expired'),
      sql<boolean>`coalesce(now() < last_polled_at + interval_seconds * interval '1 second', false)`.as('early'),
    ])
    .where('digest', '=', digestToken(deviceCode))
    .forUpdate()
    .executeTakeFirst();
  if (!grant || grant.application_id !== application.id || grant.state === 'used') return { error: 'invalid_grant' };
  if (grant.state === 'denied') return { error: 'access_denied' };
  if (grant.expired) return { error: 'expired_token' };
  const change = db.updateTable('oauth_device_grants').where('id', '=', grant.id);
  if (grant.state === 'approved' && grant.user_id !== null) {
    await change.set({ state: 'used' }).execute();
    if (!grant.active) return { error: 'access_denied' };
    return { approved: { user_id: grant.user_id, scopes: grant.scopes } };
  }
  await change
    .set((eb) => ({
      last_polled_at: sql`now()`,
      interval_seconds: eb('interval_seconds', '+', grant.early ? SLOWER_BY : 0),
    }))
    .execute();
  return { error: grant.early ? 'slow_down' : 'authorization_pending' };
};

/** Deletes requests that expired over a day ago. */
export const removeExpiredDevices = async ({ db }: Pick<Context, 'db'>): Promise<void> => {
  await db.deleteFrom('oauth_device_grants').where('expires_at', '<', sql<string>`now() - interval '1 day'`).execute();
};

const waiting = (db: Database, code: string) =>
  db
    .selectFrom('oauth_device_grants')
    .select(['id', 'application_id', 'scopes'])
    .where('user_code_digest', '=', digestToken(normalized(code)))
    .where('state', '=', 'pending')
    .where('expires_at', '>', sql<string>`now()`);

/** Formats a typed code for display: `BCDF-GHJK`. */
export const shownCode = (code: string): string => {
  const plain = normalized(code);
  return `${plain.slice(0, CODE_LENGTH / 2)}-${plain.slice(CODE_LENGTH / 2)}`;
};

/** Accepts lower case, dashes and spaces, as users type them. */
const normalized = (code: string): string => code.replace(/[\s\p{Pd}]/gu, '').toUpperCase();

const WINDOW_SECONDS = 300;
const TRIES_PER_ACCOUNT = 20;
const TRIES_PER_ADDRESS = 60;

/**
 * Limits attempts. There are 20^8 codes and few are pending at a time, so this many attempts are very unlikely to hit
 * one.
 */
const guard = async ({ services, client }: Context, userId: number): Promise<void> => {
  const seconds = WINDOW_SECONDS;
  const guards = [
    await hit(services, `device-code:user:${userId}`, { limit: TRIES_PER_ACCOUNT, seconds }),
    ...(client.ip === null
      ? []
      : [await hit(services, `device-code:address:${networkOf(client.ip)}`, { limit: TRIES_PER_ADDRESS, seconds })]),
  ];
  const refused = guards.find(({ allowed }) => !allowed);
  if (!refused) return;
  throw new DomainError('too_many_requests', 'Too many codes were tried. Try again later.', {
    retryAfterSeconds: refused.retryAfterSeconds,
  });
};
