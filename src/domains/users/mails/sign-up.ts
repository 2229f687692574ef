import { sql } from 'kysely';
import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { webUrl } from '#platform/urls.ts';
import { isTaken } from '../addresses.ts';

/** How long a registration waits for its address to be confirmed. */
export const SIGN_UP_HOURS = 72;

/**
 * The job `users.mail_sign_up`: mails the link of a registration, or informs the owner of the address that they already
 * have an account. Running it again replaces the link.
 */
export const mailSignUp = defineJob({
  name: 'users.mail_sign_up',
  input: z.object({ id: z.int() }),
  maxAttempts: 5,
  run: async (ctx, { id }) => {
    await ctx.transaction(async (tx) => {
      const waiting = await tx.db
        .selectFrom('sign_ups')
        .select(['email', 'username'])
        .where('id', '=', id)
        .forUpdate()
        .executeTakeFirst();
      if (!waiting) return;
      const { email, username } = waiting;
      if (await isTaken(tx, email, null)) {
        await tx.db.deleteFrom('sign_ups').where('id', '=', id).execute();
        sendMail(tx, {
          to: email,
          subject: 'You already have an account',
          text: `Hello,

somebody wants to register with this address, but an account already has it.

If it was you, sign in: ${webUrl(tx, 'users/sign_in')}
If you forgot your password, set a new one: ${webUrl(tx, 'users/password/new')}
If it was not you, do nothing.
`,
        });
        return;
      }
      const value = randomToken(32);
      await tx.db
        .updateTable('sign_ups')
        .set({ digest: digestToken(value) })
        .where('id', '=', id)
        .execute();
      sendMail(tx, {
        to: email,
        subject: 'Confirm your registration',
        text: `Hello,

somebody, hopefully you, has registered the account ${username} with this address. Choose its password within ${SIGN_UP_HOURS / 24} days:

${webUrl(tx, `users/sign_up/confirm?confirmation_token=${value}`)}

If it was not you, do nothing: without a password there will be no account.
`,
      });
    });
  },
});

/** The job `users.sweep_sign_ups`: deletes registrations that were not confirmed in time. */
export const sweepSignUps = defineJob({
  name: 'users.sweep_sign_ups',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '51 * * * *',
  run: async ({ db }) => {
    await db.deleteFrom('sign_ups').where('expires_at', '<=', sql<string>`now()`).execute();
  },
});
