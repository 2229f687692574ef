import { randomInt } from 'node:crypto';
import { sql } from 'kysely';
import { Secret, TOTP } from 'otpauth';
import type { Context, Tx } from '#platform/context.ts';
import { decrypt, decryptOrNull, digestToken, encrypt } from '#platform/secrets.ts';

const PERIOD = 30;
const RECOVERY_CODES = 10;
/** Without 0, o, 1, i and l, because users copy the codes from paper. */
const LETTERS = 'abcdefghjkmnpqrstuvwxyz23456789';

/** Seals an authenticator secret for one account. */
export const sealSecret = (ctx: Pick<Context, 'services'>, userId: number, secret: string): Buffer =>
  encrypt(ctx.services.secretKey, secret, `otp:${userId}`);

/** The same, but null if the secret was sealed with another secret key: then only recovery codes count. */
const readableSecret = (ctx: Pick<Context, 'services'>, userId: number, sealed: Buffer): string | null =>
  decryptOrNull(ctx.services.secretKey, sealed, `otp:${userId}`);

export const openSecret = (ctx: Pick<Context, 'services'>, userId: number, sealed: Buffer): string =>
  decrypt(ctx.services.secretKey, sealed, `otp:${userId}`);

/** Returns 160 random bits in base32, the format that authenticators accept. */
export const newSecret = (): string => new Secret({ size: 20 }).base32;

export const totpOf = (
  ctx: Pick<Context, 'services'>,
  { username, secret }: { readonly username: string; readonly secret: string },
): TOTP =>
  new TOTP({
    issuer: 'Millrace',
    label: `${username}@${new URL(ctx.services.urls.base).host}`,
    secret,
    algorithm: 'SHA1',
    digits: 6,
    period: PERIOD,
  });

/** Returns the 30-second step that the code belongs to, at most one step from now, or null for any other code. */
export const stepOf = (ctx: Pick<Context, 'clock'>, secret: string, code: string): number | null => {
  const token = code.replace(/\s/g, '');
  if (!/^\d{6}$/.test(token)) return null;
  const timestamp = ctx.clock.now().getTime();
  const delta = new TOTP({ secret, period: PERIOD }).validate({ token, timestamp, window: 1 });
  return delta === null ? null : TOTP.counter({ period: PERIOD, timestamp }) + delta;
};

/**
 * Whether the code proves the user's second factor. Accepts six digits from the authenticator, at most one 30-second
 * step off and each step once, or a recovery code, which is used up. Returns false when no second factor is enabled.
 * The caller must rate-limit guesses.
 */
export const verifySecondFactor = async (tx: Tx, userId: number, code: string): Promise<boolean> => {
  const user = await tx.db
    .selectFrom('users')
    .select(['two_factor_enabled', 'otp_secret', 'otp_used_step'])
    .where('id', '=', userId)
    .forUpdate()
    .executeTakeFirst();
  if (!user?.two_factor_enabled) return false;
  const secret = user.otp_secret && readableSecret(tx, userId, user.otp_secret);
  const step = secret === null ? null : stepOf(tx, secret, code);
  if (step !== null) {
    if (user.otp_used_step !== null && step <= user.otp_used_step) return false;
    await tx.db.updateTable('users').set({ otp_used_step: step }).where('id', '=', userId).execute();
    return true;
  }
  const used = await tx.db
    .deleteFrom('recovery_codes')
    .where('user_id', '=', userId)
    .where('digest', '=', digestOfRecoveryCode(code))
    .executeTakeFirst();
  return used.numDeletedRows > 0n;
};

/** Replaces the recovery codes with ten new ones. Returns them; they cannot be read again. */
export const replaceRecoveryCodes = async (tx: Tx, userId: number): Promise<readonly string[]> => {
  const codes = Array.from({ length: RECOVERY_CODES }, newRecoveryCode);
  await tx.db.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
  await tx.db
    .insertInto('recovery_codes')
    .values(codes.map((code) => ({ user_id: userId, digest: digestOfRecoveryCode(code) })))
    .execute();
  return codes;
};

/** Returns the number of unused recovery codes. */
export const countRecoveryCodes = async (ctx: Pick<Context, 'db'>, userId: number): Promise<number> => {
  const { count } = await ctx.db
    .selectFrom('recovery_codes')
    .select(sql<number>`count(*)`.as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return count;
};

/** Returns five groups of five characters: 123 random bits. */
const newRecoveryCode = (): string =>
  Array.from({ length: 25 }, () => LETTERS[randomInt(LETTERS.length)])
    .join('')
    .replace(/(.{5})(?=.)/g, '$1-');

/** Ignores case, dashes and spaces. */
const digestOfRecoveryCode = (code: string): Buffer => digestToken(code.toLowerCase().replace(/[\s-]/g, ''));
