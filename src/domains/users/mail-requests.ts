import { sql } from 'kysely';
import { z } from 'zod';
import { networkOf } from '#platform/caller/network.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { MAIL_PURPOSES, type MailPurpose } from './mail-tokens.ts';
import { sendConfirmation } from './mails/confirmation.ts';
import { sendPasswordReset } from './mails/password-reset.ts';

/** How many mails can be requested from one client address, and for one mail address, within an hour. */
const PER_PLACE = { limit: 100, seconds: 3_600 };
const PER_ADDRESS = { limit: 5, seconds: 3_600 };

/**
 * Queues a request to mail a link that confirms an address or resets a password. A job looks the account up later, so
 * neither the response nor its duration reveals whether an account exists.
 *
 * @throws `too_many_requests`, for known and unknown addresses alike
 */
export const requestMail = async (ctx: Context, purpose: MailPurpose, email: string): Promise<void> => {
  const counts = [
    await hit(
      ctx.services,
      `mail-requests:${purpose}:ip:${ctx.client.ip === null ? 'none' : networkOf(ctx.client.ip)}`,
      PER_PLACE,
    ),
    await hit(ctx.services, `mail-requests:${purpose}:email:${email.toLowerCase()}`, PER_ADDRESS),
  ];
  const refused = counts.filter((count) => !count.allowed);
  if (refused.length > 0) {
    throw new DomainError('too_many_requests', 'Too many mails were requested. Try again later.', {
      retryAfterSeconds: Math.max(...refused.map((count) => count.retryAfterSeconds)),
    });
  }
  await ctx.transaction(async (tx) => tx.enqueue(answerMailRequest, { purpose, email }));
};

/**
 * The job `users.answer_mail_request`: sends the mail if there is a matching account, and only to an address that is
 * stored with the account.
 */
export const answerMailRequest = defineJob({
  name: 'users.answer_mail_request',
  input: z.object({ purpose: z.enum(MAIL_PURPOSES), email: z.string().max(1_000) }),
  maxAttempts: 5,
  run: async (ctx, { purpose, email }) => {
    const found = purpose === 'reset_password' ? await resettable(ctx, email) : await unconfirmed(ctx, email);
    await ctx.transaction(async (tx) => {
      for (const user of found) {
        if (purpose === 'reset_password') await sendPasswordReset(tx, user);
        else await sendConfirmation(tx, user.id, user.email);
      }
    });
  },
});

interface Stored {
  readonly id: number;
  readonly username: string;
  readonly email: string;
}

/**
 * Finds the account that has confirmed the address; there is at most one. The link always goes to the primary address.
 * Otherwise the thief of a token could add an address and take over the account.
 */
const resettable = async ({ db }: Context, email: string): Promise<readonly Stored[]> => {
  const { rows } = await sql<Stored>`
    select u.id, u.username, u.email from (
      select id as user_id from users where lower(email) = lower(${email})
      union all
      select user_id from emails where lower(email) = lower(${email}) and confirmed_at is not null
    ) as a join users u on u.id = a.user_id
    where u.confirmed_at is not null and u.user_type = 'human' and u.state in ('active', 'deactivated')
    limit 1`.execute(db);
  return rows;
};

/** Finds accounts that added the address without confirming it. There can be several. */
const unconfirmed = async ({ db }: Context, email: string): Promise<readonly Stored[]> => {
  const { rows } = await sql<Stored>`
    select u.id, u.username, a.email from (
      select id as user_id, email from users where lower(email) = lower(${email}) and confirmed_at is null
      union all
      select user_id, email from emails where lower(email) = lower(${email}) and confirmed_at is null
    ) as a join users u on u.id = a.user_id
    where u.user_type = 'human' and u.state in ('active', 'deactivated')
    order by a.user_id limit 5`.execute(db);
  return rows;
};
