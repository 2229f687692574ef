import { type Selectable, sql } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { SamlGroupLinks } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { requireSamlLinks } from './policy.ts';

/** Gives the members of the provider's group `name` a role in the group (specification 3 §2.3). */
export type SamlGroupLink = Selectable<SamlGroupLinks>;

/** Lists the links of the group, oldest first. Owners only. @throws `forbidden` */
export const listSamlGroupLinks = (ctx: Context, group: GroupRow): List<SamlGroupLink> => {
  requireSamlLinks(ctx, group);
  const links = ctx.db.selectFrom('saml_group_links').selectAll().where('namespace_id', '=', group.id);
  return listOf(ctx.db, links, [{ by: sql.ref('id'), of: (link) => link.id }], 'asc');
};

/** Returns one link. Owners only. @throws `forbidden`, `not_found` (Linked SAML Group) */
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
