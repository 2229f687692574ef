import { sql } from 'kysely';
import { z } from 'zod';
import type { Context, Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';

export const MAIL_PURPOSES = ['confirm_email', 'reset_password'] as const;
export type MailPurpose = (typeof MAIL_PURPOSES)[number];

/** Confirmation links last over a weekend. Password links are short-lived. */
const LIFETIME_HOURS: Readonly<Record<MailPurpose, number>> = { confirm_email: 72, reset_password: 6 };

export interface MailToken {
  readonly user_id: number;
  /** The address that the token was mailed to. */
  readonly email: string;
}

/**
 * Issues a token for a link in a mail to `email`. It works once, until it expires. Ends earlier tokens of the purpose
 * for that address.
 */
export const issueMailToken = async (
  tx: Tx,
  purpose: MailPurpose,
  { user_id, email }: MailToken,
): Promise<{ readonly value: string; readonly hours: number }> => {
  await tx.db
    .deleteFrom('mail_tokens')
    .where('user_id', '=', user_id)
    .where('purpose', '=', purpose)
    .where(sql<boolean>`lower(email) = lower(${email})`)
    .execute();
  const value = randomToken(32);
  const hours = LIFETIME_HOURS[purpose];
  await tx.db
    .insertInto('mail_tokens')
    .values({
      user_id,
      purpose,
      email,
      digest: digestToken(value),
      expires_at: sql`now() + make_interval(hours => ${hours})`,
    })
    .execute();
  return { value, hours };
};

/** Returns what a token stands for, or null when it is invalid, used or expired. */
export const findMailToken = async (
  ctx: Pick<Context, 'db'>,
  purpose: MailPurpose,
  value: string,
): Promise<MailToken | null> =>
  (await ctx.db
    .selectFrom('mail_tokens')
    .select(['user_id', 'email'])
    .where('digest', '=', digestToken(value))
    .where('purpose', '=', purpose)
    .where('expires_at', '>', sql<string>`now()`)
    .executeTakeFirst()) ?? null;

/** Does the same and uses the token up. If two requests race, one gets the token. */
export const takeMailToken = async (tx: Tx, purpose: MailPurpose, value: string): Promise<MailToken | null> =>
  (await tx.db
    .deleteFrom('mail_tokens')
    .where('digest', '=', digestToken(value))
    .where('purpose', '=', purpose)
    .where('expires_at', '>', sql<string>`now()`)
    .returning(['user_id', 'email'])
    .executeTakeFirst()) ?? null;

/** Ends the user's tokens for the purpose, or only those mailed to `email`. */
export const endMailTokens = async (tx: Tx, purpose: MailPurpose, userId: number, email?: string): Promise<void> => {
  let query = tx.db.deleteFrom('mail_tokens').where('user_id', '=', userId).where('purpose', '=', purpose);
  if (email !== undefined) query = query.where(sql<boolean>`lower(email) = lower(${email})`);
  await query.execute();
};

/** The job `mail_tokens.sweep`: deletes expired tokens. */
export const sweepMailTokens = defineJob({
  name: 'mail_tokens.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '47 * * * *',
  run: async ({ db }) => {
    await db.deleteFrom('mail_tokens').where('expires_at', '<=', sql<string>`now()`).execute();
  },
});
