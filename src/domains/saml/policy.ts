import { OWNER } from '#domains/access/model.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';

/** Owners of the group. @throws DomainError `forbidden` */
export const requireSamlLinks = (ctx: Pick<Context, 'actor'>, group: GroupRow): void =>
  requireGroupAbility(ctx, group, 'admin_saml_group_link');

/** Links are the business of those who administer them: so are the events that tell of them. */
export const linkScope = (group: Pick<GroupRow, 'traversal_ids'>, id: number) => ({
  subject: { type: 'SamlGroupLink', id },
  namespace_ids: group.traversal_ids,
  min_access_level: OWNER,
});
