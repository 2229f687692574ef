import { sql } from 'kysely';
import { z } from 'zod';
import type { Context, Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { webUrl } from '#platform/urls.ts';
import { isUnexpired } from './model.ts';

/** A token that is about to expire. */
export interface ExpiringToken {
  readonly id: number;
  readonly user_id: number;
  readonly name: string;
  readonly created_at: string;
  /** The last day on which it works. */
  readonly expires_at: string;
  /** The notice that is due, in days before expiry. */
  readonly days: number;
}

const BATCH = 500;

/**
 * Passes the tokens with a due notice to `notify`, in the transaction that marks them. So no notice is sent twice, even
 * after a crash or a repeated run. If a day was missed, the next run sends the notice that is due by then. A notice
 * whose day was before the creation of the token is never due.
 */
export const notifyExpiring = async (
  ctx: Context,
  { userType, days }: { readonly userType: 'human' | 'service_account'; readonly days: readonly number[] },
  notify: (tx: Tx, tokens: readonly ExpiringToken[]) => Promise<void>,
): Promise<void> => {
  for (;;) {
    ctx.signal.throwIfAborted();
    const count = await ctx.transaction(async (tx) => {
      const { rows } = await sql<ExpiringToken>`
        with due as (
          select t.id, notice.days
          from personal_access_tokens t
          join users u on u.id = t.user_id and u.user_type = ${userType} and u.state = 'active'
          cross join lateral (
            select min(d) as days from unnest(${days}::int[]) as d
            where t.expires_at - d <= current_date and t.created_at < t.expires_at - d) notice
          where not t.revoked and not t.impersonation and ${sql.raw(isUnexpired('t'))}
            and t.expires_at <= current_date + ${Math.max(...days)}::int
            and notice.days is not null and (t.expiry_notice is null or t.expiry_notice > notice.days)
          order by t.id limit ${sql.lit(BATCH)} for update of t skip locked)
        update personal_access_tokens t set expiry_notice = due.days from due where due.id = t.id
        returning t.id, t.user_id, t.name, t.created_at, t.expires_at, due.days`.execute(tx.db);
      await notify(tx, rows);
      return rows.length;
    });
    if (count < BATCH) return;
  }
};

const MAIL_DAYS = [7] as const;

/** The job `tokens.expiring`: mails users seven days before one of their tokens expires. */
export const mailExpiring = defineJob({
  name: 'tokens.expiring',
  input: z.object({}).strict(),
  maxAttempts: 5,
  cron: '40 1 * * *',
  run: (ctx) => notifyExpiring(ctx, { userType: 'human', days: MAIL_DAYS }, mailOwners),
});

const mailOwners = async (tx: Tx, tokens: readonly ExpiringToken[]): Promise<void> => {
  const owners = await tx.db
    .selectFrom('users')
    .select(['id', 'username', 'email'])
    .where(sql<boolean>`id = any (${tokens.map(({ user_id }) => user_id)}::bigint[]) and confirmed_at is not null`)
    .execute();
  const byId = new Map(owners.map((owner) => [owner.id, owner]));
  for (const { user_id, name, expires_at } of tokens) {
    const owner = byId.get(user_id);
    if (!owner) continue;
    sendMail(tx, {
      to: owner.email,
      subject: 'One of your personal access tokens is about to expire',
      text: `Hello ${owner.username},

your personal access token "${name}" expires at the end of ${expires_at} (UTC).
Replace it wherever it is still in use: ${webUrl(tx, '-/user_settings/personal_access_tokens')}
`,
    });
  }
};
