import { BlockList, isIP } from 'node:net';
import { sql } from 'kysely';
import { defineCache } from '#platform/cache.ts';
import { parseAddressRanges } from '#platform/caller/trusted-proxies.ts';
import type { Actor, Context, Services, Tx } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';
import type { OpenLabels } from './labels.ts';

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

/** Returns the setting `globally_allowed_ips`: the networks that no group excludes, as `parseAddressRanges` takes them. */
export const globallyAllowedNetworks = definePort<Pick<Context, 'services'>, [], Promise<string>>(
  'globallyAllowedNetworks',
);

/**
 * Returns for each actor the labels that an external service opens to them now, or undefined if it does not decide about
 * them. With `current`, labels that projects got a moment ago count too.
 */
export const labelsOpenTo = definePort<
  Pick<Context, 'services'>,
  [actors: readonly Actor[], options: { readonly current: boolean }],
  Promise<readonly (OpenLabels | undefined)[]>
>('labelsOpenTo');

/**
 * Returns the actors with the groups whose current restrictions exclude their address, and with the labels of projects that
 * an external service opens to them. Code that authorises an actor again later, such as a subscription, must use this
 * result.
 */
export const withClosedGroups = async (
  services: Services,
  actors: readonly Actor[],
  options = { current: false },
): Promise<readonly Actor[]> => {
  const restrictions = await restrictionsOf(services);
  const isAllowed = restrictions.length === 0 ? null : await globallyAdmitting(services);
  const labels = await labelsOpenTo({ services }, actors, options);
  return actors.map((actor, index) => {
    const closed = isAllowed?.(actor.address ?? '') ? NONE : closedTo(restrictions, actor);
    const open = labels[index];
    const isUnrestricted = closed.length === 0 && open === undefined;
    const isSame = isUnrestricted && !actor.closedGroups?.length && actor.openLabels === undefined;
    if (isSame) return actor;
    return { ...actor, closedGroups: closed, openLabels: open?.digests, unansweredLabels: open?.unanswered };
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
export const reloadRestrictions = async (tx: Tx): Promise<void> => {
  await sql`select pg_notify(${RESTRICTIONS_CHANNEL}, '')`.execute(tx.db);
};

/** Whether the address is in one of the networks. */
export const isWithin = (networks: readonly string[], ip: string): boolean => admitting(networks)(ip);

/** Whether no group may exclude the address. */
export const isGloballyAllowed = async (services: Services, ip: string): Promise<boolean> =>
  (await globallyAdmitting(services))(ip);

/** The parsed setting, by its text. */
const parsedNetworks = defineCache<string, (ip: string) => boolean>({ name: 'globally allowed networks', limit: 1 });

const globallyAdmitting = async (services: Services): Promise<(ip: string) => boolean> => {
  const text = await globallyAllowedNetworks({ services });
  const cache = parsedNetworks(services);
  const admits = cache.get(text) ?? admitting(parseAddressRanges(text) ?? []);
  cache.set(text, admits);
  return admits;
};

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
    const networks = parseAddressRanges(ip_restriction_ranges ?? '');
    // An empty list restricts nothing.
    if (networks !== null && networks.length === 0) return [];
    return { id, admits: networks === null ? () => false : admitting(networks) };
  });
};
