import { ROLES } from '#domains/access/model.ts';
import { lockGroupFor } from '#domains/groups/locks.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { badParameters, invalid, notFound, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { samlGroupLinkCreated, samlGroupLinkDeleted } from './events.ts';
import { linkScope, requireSamlLinks } from './policy.ts';
import type { SamlGroupLink } from './queries.ts';

export interface NewSamlGroupLink {
  readonly saml_group_name: string;
  readonly access_level: number;
  /** Stored and returned only, because the hub has no custom roles. */
  readonly member_role_id?: number | undefined;
}

const MAX_NAME = 255;

/**
 * Links a group of the SAML provider. Its members get the role at their next sign-in. Owners only.
 *
 * @throws `forbidden`, `parameters`, `invalid` (also for a name that is already linked)
 */
export const createSamlGroupLink = async (
  ctx: Context,
  given: GroupRow,
  { saml_group_name: name, access_level, member_role_id }: NewSamlGroupLink,
): Promise<SamlGroupLink> => {
  requireSamlLinks(ctx, given);
  if (!ROLES.some((role) => role === access_level)) {
    throw badParameters(`access_level does not have a valid value (allowed: ${ROLES.join(', ')})`);
  }
  if (name.trim() === '') throw invalid({ saml_group_name: ["can't be blank"] });
  if (isLongerThan(name, MAX_NAME)) {
    throw invalid({ saml_group_name: [tooLong(MAX_NAME)] });
  }
  if (member_role_id !== undefined && member_role_id < 1) throw invalid({ member_role_id: ['is invalid'] });
  return ctx.transaction(async (tx) => {
    const group = await lockGroupFor(tx, given, 'admin_saml_group_link');
    const link = await tx.db
      .insertInto('saml_group_links')
      .values({ namespace_id: group.id, name, access_level, member_role_id: member_role_id ?? null })
      .onConflict((on) => on.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (!link) throw invalid({ saml_group_name: ['has already been taken'] });
    tx.emit(samlGroupLinkCreated, { ...linkScope(group, link.id), payload: linkPayload(group, link) });
    return link;
  });
};

/**
 * Deletes the link. The roles it gave are removed when their users next sign in. Owners only.
 *
 * @throws `forbidden`, `not_found` (Linked SAML Group)
 */
export const deleteSamlGroupLink = async (ctx: Context, given: GroupRow, name: string): Promise<void> => {
  requireSamlLinks(ctx, given);
  await ctx.transaction(async (tx) => {
    const group = await lockGroupFor(tx, given, 'admin_saml_group_link');
    const link = await tx.db
      .deleteFrom('saml_group_links')
      .where('namespace_id', '=', group.id)
      .where('name', '=', name)
      .returningAll()
      .executeTakeFirst();
    if (!link) throw notFound('Linked SAML Group');
    tx.emit(samlGroupLinkDeleted, { ...linkScope(group, link.id), payload: linkPayload(group, link) });
  });
};

const linkPayload = (
  { id, full_path }: GroupRow,
  { id: linkId, name, access_level, member_role_id }: SamlGroupLink,
) => ({
  id: linkId,
  group: { id, full_path },
  name,
  access_level,
  member_role_id,
});
