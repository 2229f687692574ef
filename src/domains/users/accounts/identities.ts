import { sql } from 'kysely';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, invalid, notFound } from '#platform/errors.ts';
import { tightName } from '#platform/ldap/names.ts';
import { GROUP_SAML, type UserAttributes } from '../attributes.ts';
import { type ApplicationProof, requireProofOfApplication } from '../proof.ts';
import { type Changes, lockUser, writeUser } from './write.ts';

/**
 * Sets the user's identity at a provider and replaces the previous one. For `group_saml` there is one identity per
 * group. Does nothing when no identity is given. A group has one SAML provider, which the group's id names. Returns the
 * change by attribute, for `writeUser`.
 *
 * @throws `invalid` for a group that does not exist, `conflict` for a name that another user has
 */
export const setIdentity = async (
  tx: Tx,
  user_id: number,
  { provider, extern_uid, group_id_for_saml }: UserAttributes,
): Promise<Changes> => {
  if (extern_uid === undefined) return {};
  const saml_provider_id = group_id_for_saml ?? null;
  if (saml_provider_id !== null) await requireGroup(tx, saml_provider_id);
  const identity = { user_id, provider: provider ?? GROUP_SAML, saml_provider_id };
  const { numDeletedRows: replaced } = await tx.db
    .deleteFrom('identities')
    .where('user_id', '=', user_id)
    .where('provider', '=', identity.provider)
    .where('saml_provider_id', 'is not distinct from', saml_provider_id)
    .executeTakeFirst();
  const name = identity.provider.startsWith('ldap') ? await freeName(tx, identity.provider, extern_uid) : extern_uid;
  await tx.db
    .insertInto('identities')
    .values({ ...identity, extern_uid: name })
    .execute();
  return { identity: { previous: replaced > 0n ? identity.provider : null, current: identity.provider } };
};

/**
 * Returns the name in an LDAP directory in the form that is stored. Names match in any case, so two users cannot have
 * one that differs only in case: sign-in could not tell them apart.
 *
 * @throws `conflict`
 */
const freeName = async (tx: Tx, provider: string, externUid: string): Promise<string> => {
  const name = tightName(externUid);
  const other = await tx.db
    .selectFrom('identities')
    .select('id')
    .where('provider', '=', provider)
    .where(sql<boolean>`lower(extern_uid) = lower(${name})`)
    .executeTakeFirst();
  if (other) throw conflict('Extern uid has already been taken');
  return name;
};

const requireGroup = async (tx: Tx, id: number): Promise<void> => {
  const group = await tx.db
    .selectFrom('namespaces')
    .select('id')
    .where('id', '=', id)
    .where('kind', '=', 'group')
    .executeTakeFirst();
  if (!group) throw invalid({ group_id_for_saml: ['does not exist'] });
};

/**
 * Removes the user's identity at a provider, so that they can no longer sign in through it. Administrators only. OAuth
 * applications must send `current_password`.
 *
 * @throws `not_found` (User, Identity)
 */
export const deleteIdentity = async (
  ctx: Context,
  userId: number,
  provider: string,
  proof: ApplicationProof = {},
): Promise<void> => {
  requireAdministrator(ctx);
  await requireProofOfApplication(ctx, proof);
  await ctx.transaction(async (tx) => {
    const user = await lockUser(tx, userId);
    const { numDeletedRows } = await tx.db
      .deleteFrom('identities')
      .where('user_id', '=', userId)
      .where('provider', '=', provider)
      .executeTakeFirst();
    if (numDeletedRows === 0n) throw notFound('Identity');
    await writeUser(tx, user, {}, { identity: { previous: provider, current: null } });
  });
};
