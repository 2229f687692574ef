import { type Selectable, sql } from 'kysely';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { LdapGroupLinks, LdapSyncs } from '#platform/db/tables.ts';
import { requireManageLdap } from './policy.ts';

/** Gives the members of `cn`, or the people that `filter` finds, a role in the group (specification 3 §2.3). */
export type LdapGroupLink = Selectable<LdapGroupLinks>;

/** The state of a group's latest sync. */
export type LdapSync = Selectable<LdapSyncs>;

/** Lists the links of the group, oldest first. @throws `forbidden` */
export const listLdapGroupLinks = async (ctx: Context, group: GroupRow): Promise<List<LdapGroupLink>> => {
  await requireManageLdap(ctx, group);
  const links = ctx.db.selectFrom('ldap_group_links').selectAll().where('namespace_id', '=', group.id);
  return listOf(ctx.db, links, [{ by: sql.ref('id'), of: (link) => link.id }], 'asc');
};

/** Returns the latest sync, or null when there was none. @throws `forbidden` */
export const findLdapSync = async (ctx: Context, group: GroupRow): Promise<LdapSync | null> => {
  requireGroupAbility(ctx, group, 'admin_ldap_group_link');
  const row = await ctx.db.selectFrom('ldap_syncs').selectAll().where('namespace_id', '=', group.id).executeTakeFirst();
  return row ?? null;
};
