import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/** Returns true if none of these groups has turned off mails, for itself and everything below it. */
export const groupsWantMails = async ({ db }: Pick<Context, 'db'>, ids: readonly number[]): Promise<boolean> => {
  const silent = await db
    .selectFrom('namespaces')
    .select('id')
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .where('emails_enabled', '=', false)
    .limit(1)
    .executeTakeFirst();
  return silent === undefined;
};
