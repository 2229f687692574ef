import type { Selectable } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import type { SamlGroupLinks } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { requireSamlLinks } from './policy.ts';

/** Members of the provider's group `name` get the role in the group (specification 3 §2.3). */
export type SamlGroupLink = Selectable<SamlGroupLinks>;

/** All links of the group, the oldest first: there are few. Owners only. */
export const listSamlGroupLinks = async (ctx: Context, group: GroupRow): Promise<SamlGroupLink[]> => {
  requireSamlLinks(ctx, group);
  return ctx.db.selectFrom('saml_group_links').selectAll().where('namespace_id', '=', group.id).orderBy('id').execute();
};

/** One of them. @throws DomainError `forbidden`, `not_found` (Linked SAML Group) */
export const getSamlGroupLink = async (ctx: Context, group: GroupRow, name: string): Promise<SamlGroupLink> => {
  requireSamlLinks(ctx, group);
  const link = await ctx.db
    .selectFrom('saml_group_links')
    .selectAll()
    .where('namespace_id', '=', group.id)
    .where('name', '=', name)
    .executeTakeFirst();
  if (!link) throw notFound('Linked SAML Group');
  return link;
};
