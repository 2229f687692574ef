import { OWNER } from '#domains/access/model.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';

/** Whether the caller can manage the group's LDAP links. Administrators can, and Owners if the setting allows it. */
export const mayManageLdap = async (ctx: Pick<Context, 'actor' | 'services'>, group: GroupRow): Promise<boolean> =>
  canOnGroup(ctx, group, 'admin_ldap_group_link') &&
  (ctx.actor.isAdmin || (await getSettings(ctx)).allow_group_owners_to_manage_ldap);

/** @throws DomainError `forbidden` */
export const requireManageLdap = async (ctx: Pick<Context, 'actor' | 'services'>, group: GroupRow): Promise<void> => {
  if (!(await mayManageLdap(ctx, group))) throw forbidden();
};

/** The scope of events about links and syncs, which only Owners receive. */
export const ldapScope = (group: { readonly traversal_ids: readonly number[] }) => ({
  namespace_ids: group.traversal_ids,
  min_access_level: OWNER,
});
