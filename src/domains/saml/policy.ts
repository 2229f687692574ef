import { OWNER } from '#domains/access/model.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';

/** Requires an Owner of the group. @throws `forbidden` */
export const requireSamlLinks = (ctx: Pick<Context, 'actor'>, group: GroupRow): void =>
  requireGroupAbility(ctx, group, 'admin_saml_group_link');

/** The scope of events about links, which only those who can manage the links receive. */
export const linkScope = (group: Pick<GroupRow, 'traversal_ids'>, id: number) => ({
  subject: { type: 'SamlGroupLink', id },
  namespace_ids: group.traversal_ids,
  min_access_level: OWNER,
});
