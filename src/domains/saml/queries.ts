import { type Selectable, sql } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { SamlGroupLinks } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { requireSamlLinks } from './policy.ts';

/** Members of the provider's group `name` get the role in the group (specification 3 §2.3). */
export type SamlGroupLink = Selectable<SamlGroupLinks>;

/** The links of the group, the oldest first. Owners only. @throws DomainError `forbidden` */
export const listSamlGroupLinks = (ctx: Context, group: GroupRow): List<SamlGroupLink> => {
  requireSamlLinks(ctx, group);
  const links = ctx.db.selectFrom('saml_group_links').selectAll().where('namespace_id', '=', group.id);
  return listOf(ctx.db, links, [{ by: sql.ref('id'), of: (link) => link.id }], 'asc');
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
