import { sql } from 'kysely';
import { z } from 'zod';
import { groupsOwnedAlone } from '#domains/access/roles.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { removeAccount } from '../removal.ts';

/**
 * The job `users.delete_unconfirmed`: deletes, every night, the accounts whose address was not confirmed within
 * `unconfirmed_users_delete_after_days` and that nobody ever used. Keeps administrators and the only owners of groups.
 * Does nothing unless `delete_unconfirmed_users` is on.
 */
export const deleteUnconfirmedUsers = defineJob({
  name: 'users.delete_unconfirmed',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '40 3 * * *',
  run: async (ctx) => {
    const settings = await getSettings(ctx);
    if (!settings.delete_unconfirmed_users) return;
    const days = settings.unconfirmed_users_delete_after_days;
    for (let id = await findNext(ctx, 0, days); id !== null; id = await findNext(ctx, id, days)) {
      ctx.signal.throwIfAborted();
      await deleteAccount(ctx, id, days);
    }
  },
});

/** Returns the lowest id of an account to delete that is higher than `after`, or null. */
const findNext = async ({ db }: Pick<Context, 'db'>, after: number, days: number): Promise<number | null> => {
  const { rows } = await sql<{ id: number }>`
    ${toDelete(days)} and u.id > ${after} order by u.id limit 1`.execute(db);
  return rows[0]?.id ?? null;
};

/**
 * Deletes the account in a transaction of its own, unless it has been used since, or another process has it. An account
 * that cannot be deleted is logged and tried again the next night, so that it does not keep the others.
 */
const deleteAccount = async (ctx: Context, id: number, days: number): Promise<void> => {
  try {
    await ctx.transaction(async (tx) => {
      const { rows } = await sql`${toDelete(days)} and u.id = ${id} for update skip locked`.execute(tx.db);
      if (rows.length > 0) await removeAccount(tx, id, { hardDelete: false });
    });
  } catch (error) {
    if (ctx.signal.aborted) throw error;
    ctx.log.error({ err: error, user_id: id }, 'an unconfirmed account could not be deleted');
  }
};

const toDelete = (days: number) => sql<{ id: number }>`
  select u.id from users u
  where u.confirmed_at is null and u.user_type = 'human' and u.sign_in_count = 0
    and u.state = 'active' and not u.is_admin and u.last_activity_on is null
    and u.created_at < now() - make_interval(days => ${days})
    and not exists (${groupsOwnedAlone(sql.ref<number>('u.id'))})`;
