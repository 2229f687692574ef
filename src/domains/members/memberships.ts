import { sql } from 'kysely';
import { isUnexpired } from '#domains/access/roles.ts';
import { getUser } from '#domains/users/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';

/** A membership with its place. */
export interface Membership {
  readonly id: number;
  readonly source_id: number;
  readonly source_name: string;
  readonly source_type: MembershipSource;
  readonly access_level: number;
}

export const MEMBERSHIP_SOURCES = ['Project', 'Namespace'] as const;
export type MembershipSource = (typeof MEMBERSHIP_SOURCES)[number];

/**
 * Lists the direct memberships of a user, oldest first (specification 2 §4.1). Excludes inherited ones, those through
 * invited groups and expired ones. Administrators only.
 *
 * @throws `forbidden`, `not_found` (User)
 */
export const listMemberships = async (
  ctx: Context,
  userId: number,
  source?: MembershipSource | undefined,
): Promise<List<Membership>> => {
  requireAdministrator(ctx);
  await getUser(ctx, userId);
  let query = ctx.db
    .selectFrom('members')
    .leftJoin('projects', 'projects.id', 'members.project_id')
    .leftJoin('namespaces', 'namespaces.id', 'members.namespace_id')
    .select([
      'members.id',
      'members.access_level',
      sql<number>`coalesce(members.project_id, members.namespace_id)`.as('source_id'),
      sql<string>`coalesce(projects.name, namespaces.name)`.as('source_name'),
      sql<MembershipSource>`case when members.project_id is null then 'Namespace' else 'Project' end`.as('source_type'),
    ])
    .where('members.user_id', '=', userId)
    .where(isUnexpired('members'));
  if (source === 'Project') query = query.where('members.project_id', 'is not', null);
  if (source === 'Namespace') query = query.where('members.namespace_id', 'is not', null);
  return listOf(ctx.db, query, [{ by: sql.ref('members.id'), of: (row) => row.id }], 'asc');
};
