import { isGloballyAllowed, isWithin } from '#domains/access/restrictions.ts';
import { parseAddressRanges } from '#platform/caller/trusted-proxies.ts';
import type { Context } from '#platform/context.ts';
import type { GroupRow } from './queries.ts';

/**
 * Returns an error for invalid networks that should restrict access to a group, or null. They can only be set on
 * top-level groups, and must include the caller's own address: otherwise an Owner could not remove them again.
 * Administrators and globally allowed addresses are never restricted.
 */
export const networkErrors = async (
  ctx: Pick<Context, 'actor' | 'client' | 'services'>,
  group: Pick<GroupRow, 'parent_id'>,
  ranges: string | null | undefined,
): Promise<Readonly<Record<string, string[]>>> => {
  const problem = ranges?.trim() ? await problemOf(ctx, group, ranges) : null;
  return problem === null ? {} : { ip_restriction_ranges: [problem] };
};

const problemOf = async (
  { actor, client: { ip }, services }: Pick<Context, 'actor' | 'client' | 'services'>,
  group: Pick<GroupRow, 'parent_id'>,
  ranges: string,
): Promise<string | null> => {
  if (group.parent_id !== null) return 'can only be set on top-level groups';
  const networks = parseAddressRanges(ranges);
  if (networks === null) return 'is not a list of addresses and ranges';
  if (actor.isAdmin || ip === null || isWithin(networks, ip)) return null;
  return (await isGloballyAllowed(services, ip)) ? null : 'must include your own address';
};
