import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { userIdInAddress } from './commit-email.ts';

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

/**
 * Returns the users behind addresses in commits and files, by address in lower case: confirmed addresses, and the
 * no-reply addresses of the hub (`commitEmail`). Unknown addresses are absent. `unconfirmedToo` adds unconfirmed primary
 * addresses. Only use it to restrict users, because anyone may have entered somebody else's address.
 */
export const userIdsByAddresses = async (
  ctx: Pick<Context, 'db' | 'services'>,
  addresses: readonly string[],
  { unconfirmedToo = false }: { readonly unconfirmedToo?: boolean } = {},
): Promise<ReadonlyMap<string, number>> => {
  const wanted = [...new Set(addresses.map((address) => address.toLowerCase()))];
  if (wanted.length === 0) return new Map();
  const ids = await Promise.all(wanted.map((address) => userIdInAddress(ctx, address)));
  const withIds = wanted.flatMap((address, index) => {
    const id = ids[index] ?? null;
    return id === null ? [] : [{ address, id }];
  });
  const { rows } = await sql<{ address: string; id: number }>`
    select lower(email) as address, id from users
    where lower(email) = any (${wanted}::text[]) and (confirmed_at is not null or ${unconfirmedToo})
    union all
    select lower(email), user_id from emails where lower(email) = any (${wanted}::text[]) and confirmed_at is not null
    union all
    select given.address, u.id
    from unnest(${withIds.map(({ address }) => address)}::text[], ${withIds.map(({ id }) => id)}::bigint[])
      as given (address, id)
    join users u on u.id = given.id`.execute(ctx.db);
  return new Map(rows.map(({ address, id }) => [address, id]));
};
