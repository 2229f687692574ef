import { isWithin, networksIn } from '#domains/access/restrictions.ts';
import type { Context } from '#platform/context.ts';
import type { GroupRow } from './queries.ts';

/**
 * Returns an error for invalid networks that should restrict access to a group, or null. They can only be set on
 * top-level groups, and must include the caller's own address: otherwise an Owner could not remove them again.
 * Administrators are never restricted.
 */
export const networkErrors = (
  ctx: Pick<Context, 'actor' | 'client'>,
  group: Pick<GroupRow, 'parent_id'>,
  ranges: string | null | undefined,
): Readonly<Record<string, string[]>> => {
  const problem = ranges?.trim() ? problemOf(ctx, group, ranges) : null;
  return problem === null ? {} : { ip_restriction_ranges: [problem] };
};

const problemOf = (
  { actor, client: { ip } }: Pick<Context, 'actor' | 'client'>,
  group: Pick<GroupRow, 'parent_id'>,
  ranges: string,
): string | null => {
  if (group.parent_id !== null) return 'can only be set on top-level groups';
  const networks = networksIn(ranges);
  if (networks === null) return 'is not a list of addresses and ranges';
  if (actor.isAdmin || ip === null || isWithin(networks, ip)) return null;
  return 'must include your own address';
};
