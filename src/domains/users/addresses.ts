import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';

/**
 * Refuses an address that is another account's primary address, or that another account has confirmed. Locks the
 * address until the transaction ends, so that only one of two concurrent confirmations succeeds.
 *
 * @throws `invalid` (email)
 */
export const requireFreeAddress = async (tx: Tx, email: string, userId: number | null): Promise<void> => {
  await holdAddress(tx, email);
  if (await isTaken(tx, email, userId)) throw invalid({ email: ['has already been taken'] });
};

/** Locks the address until the transaction ends, so that no other transaction can take it. */
export const holdAddress = async (tx: Tx, email: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('email:' || lower(${email}), 0))`.execute(tx.db);
};

/** Whether the address is the primary address of another account, or another account has confirmed it. */
export const isTaken = async (ctx: Pick<Context, 'db'>, email: string, userId: number | null): Promise<boolean> => {
  const { rows } = await sql<{ taken: boolean }>`
    select exists (select 1 from users where lower(email) = lower(${email}) and id is distinct from ${userId}::bigint)
      or exists (select 1 from emails where lower(email) = lower(${email}) and confirmed_at is not null
        and user_id is distinct from ${userId}::bigint) as taken`.execute(ctx.db);
  return rows[0]?.taken ?? false;
};

export const sameAddress = (left: string, right: string): boolean => left.toLowerCase() === right.toLowerCase();
