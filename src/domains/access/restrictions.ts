import { BlockList, isIP } from 'node:net';
import { sql } from 'kysely';
import { defineCache } from '#platform/cache.ts';
import type { Actor, Services, Tx } from '#platform/context.ts';
import { isAddressRange } from '#platform/trusted-proxies.ts';

// Top-level groups can restrict the networks they are reached from (specification 3 §2.1, ip_restriction_ranges). Few
// do, so all restrictions are cached in memory, and requests pay for them only when there are some.

/** Postgres channel that notifies processes when a group's networks change. */
export const RESTRICTIONS_CHANNEL = 'group_restrictions';

const NONE: readonly number[] = [];

interface Restriction {
  readonly id: number;
  readonly admits: (ip: string) => boolean;
}

/** All restrictions, under one key. */
const cachedRestrictions = defineCache<'all', Promise<readonly Restriction[]>>({
  name: 'group restrictions',
  limit: 1,
  ttlMs: 60_000,
});

/**
 * Returns the actors with the groups whose current restrictions exclude their address. Code that authorises an actor
 * again later, such as a subscription, must use this result.
 */
export const withClosedGroups = async (services: Services, actors: readonly Actor[]): Promise<readonly Actor[]> => {
  const restrictions = await restrictionsOf(services);
  return actors.map((actor) => {
    const closed = closedTo(restrictions, actor);
    return closed.length === 0 && !actor.closedGroups?.length ? actor : { ...actor, closedGroups: closed };
  });
};

const closedTo = (restrictions: readonly Restriction[], { address, isAdmin }: Actor): readonly number[] => {
  if (restrictions.length === 0 || isAdmin || address === undefined || address === null) return NONE;
  return restrictions.filter(({ admits }) => !admits(address)).map(({ id }) => id);
};

/** Empties the cache of this process, so that the next request reads the table. */
export const forgetRestrictions = (services: Services): void => {
  cachedRestrictions(services).delete('all');
};

/** Makes all processes reload the restrictions once the transaction has committed. */
export const tellOfRestrictions = async (tx: Tx): Promise<void> => {
  await sql`select pg_notify(${RESTRICTIONS_CHANNEL}, '')`.execute(tx.db);
};

/** Parses a list of networks. Returns null when one is invalid. */
export const networksIn = (ranges: string): readonly string[] | null => {
  const all = ranges
    .split(',')
    .map((range) => range.trim())
    .filter((range) => range !== '');
  return all.every(isAddressRange) ? all : null;
};

/** Whether the address is in one of the networks. */
export const isWithin = (networks: readonly string[], ip: string): boolean => admitting(networks)(ip);

const admitting = (networks: readonly string[]): ((ip: string) => boolean) => {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', prefix] = network.split('/');
    const kind = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, kind);
    else list.addSubnet(address, Number(prefix), kind);
  }
  return (ip) => isIP(ip) !== 0 && list.check(ip, isIP(ip) === 6 ? 'ipv6' : 'ipv4');
};

const restrictionsOf = (services: Services): Promise<readonly Restriction[]> => {
  const cache = cachedRestrictions(services);
  const cached = cache.get('all');
  if (cached) return cached;
  const restrictions = readRestrictions(services);
  cache.set('all', restrictions);
  // A failed read must not stay cached.
  restrictions.catch(() => cache.delete('all'));
  return restrictions;
};

const readRestrictions = async ({ db }: Services): Promise<readonly Restriction[]> => {
  const rows = await db
    .selectFrom('namespaces')
    .select(['id', 'ip_restriction_ranges'])
    .where('ip_restriction_ranges', 'is not', null)
    .where('parent_id', 'is', null)
    .orderBy('id')
    .execute();
  return rows.flatMap(({ id, ip_restriction_ranges }) => {
    const networks = networksIn(ip_restriction_ranges ?? '');
    // An empty list restricts nothing.
    if (networks !== null && networks.length === 0) return [];
    return { id, admits: networks === null ? () => false : admitting(networks) };
  });
};
