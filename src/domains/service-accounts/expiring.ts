import { sql } from 'kysely';
import { z } from 'zod';
import { OWNER } from '#domains/access/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { notifyExpiring } from '#domains/tokens/expiring.ts';
import { defineJob } from '#platform/jobs.ts';
import { isoTime } from '#platform/time.ts';
import { tokenExpiring } from './events.ts';

const DAYS = [7, 1] as const;
const EARLIER_DAYS = [60, 30] as const;

interface Holder {
  readonly id: number;
  readonly group_id: number | null;
  readonly traversal_ids: readonly number[] | null;
}

/**
 * The job `service-accounts.expiring`: emits events before tokens of service accounts expire (reference: webhooks §3).
 */
export const emitExpiringTokens = defineJob({
  name: 'service-accounts.expiring',
  input: z.object({}).strict(),
  maxAttempts: 5,
  cron: '45 1 * * *',
  run: async (ctx) => {
    const { extended_grat_expiry_webhooks_execute: earlier } = await getSettings(ctx);
    const days = earlier ? [...EARLIER_DAYS, ...DAYS] : DAYS;
    await notifyExpiring(ctx, { userType: 'service_account', days }, async (tx, tokens) => {
      const { rows } = await sql<Holder>`
        select u.id, n.id as group_id, n.traversal_ids
        from users u left join namespaces n on n.id = u.provisioned_by_group_id
        where u.id = any (${tokens.map(({ user_id }) => user_id)}::bigint[])`.execute(tx.db);
      const holders = new Map(rows.map((row) => [row.id, row]));
      for (const { created_at, ...token } of tokens) {
        const holder = holders.get(token.user_id);
        tx.emit(tokenExpiring, {
          subject: { type: 'PersonalAccessToken', id: token.id },
          namespace_ids: holder?.traversal_ids ?? [],
          min_access_level: OWNER,
          user_ids: [token.user_id],
          payload: { ...token, created_at: isoTime(created_at), group_id: holder?.group_id ?? null },
        });
      }
    });
  },
});
