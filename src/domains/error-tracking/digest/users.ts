import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { HASH_BITS } from './affected-user.ts';

/** Up to so many users the count of an error is exact. Beyond, it is an estimate from a sample of at least half of it. */
const MAX_COUNTED_USERS = 10_000;

/**
 * Halves the sample of affected users of errors that have too many, until it is small enough: it keeps the users whose
 * hash has one more leading zero bit, and counts each for twice as many.
 */
export const thinUsers = async (tx: Tx, errorIds: readonly number[]): Promise<void> => {
  for (let ids = errorIds; ids.length > 0; ) {
    const { rows } = await sql<{ id: number; sampling: number }>`
      update errors set user_sampling = user_sampling + 1
      where id = any (${ids}::bigint[]) and user_count >> user_sampling > ${sql.lit(MAX_COUNTED_USERS)}
        and user_sampling < ${sql.lit(HASH_BITS)}
      returning id, user_sampling as sampling`.execute(tx.db);
    for (const { id, sampling } of rows) await recountUsers(tx, id, sampling);
    ids = rows.map(({ id }) => id);
  }
};

/** Counts the affected users of an error anew, and drops those that do not belong to a sample so thin. */
export const recountUsers = async (tx: Tx, errorId: number, sampling: number): Promise<void> => {
  await sql`delete from error_users where error_id = ${errorId}
    and hash >> ${sql.lit(HASH_BITS)} - ${sampling}::int > 0`.execute(tx.db);
  await sql`update errors set user_count = (select count(*) from error_users where error_id = ${errorId}) << ${sampling}::int
    where id = ${errorId}`.execute(tx.db);
};
