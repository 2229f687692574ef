import { isWithin, networksIn } from '#domains/access/restrictions.ts';
import type { Context } from '#platform/context.ts';
import type { GroupRow } from './queries.ts';

/**
 * What is wrong with the networks that a group is to be kept to. They are given to top-level groups, and include the one
 * that they are set from: an Owner could not take them back from anywhere else. Administrators are kept out of nothing.
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
  if (group.parent_id !== null) return 'can be set on top-level groups alone';
  const networks = networksIn(ranges);
  if (networks === null) return 'is not a list of addresses and ranges';
  if (actor.isAdmin || ip === null || isWithin(networks, ip)) return null;
  return 'would keep you out: your own address is not among them';
};
