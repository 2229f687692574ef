import { sql } from 'kysely';
import { ROLES } from '#domains/access/model.ts';
import { lockGroupFor } from '#domains/groups/locks.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badParameters, invalid, notFound, tooLong } from '#platform/errors.ts';
import { isFilter } from '#platform/ldap/servers.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { ldapGroupLinkCreated, ldapGroupLinkDeleted } from './events.ts';
import { queueSync } from './jobs.ts';
import { ldapScope, requireManageLdap } from './policy.ts';
import type { LdapGroupLink } from './queries.ts';

/** The target of a link: exactly one of `cn` and `filter`. */
export interface LdapTarget {
  /** Name of an LDAP group. */
  readonly cn?: string | undefined;
  /** An LDAP search filter for people (RFC 4515). */
  readonly filter?: string | undefined;
}

export interface NewLdapGroupLink extends LdapTarget {
  readonly provider: string;
  readonly group_access: number;
}

const MAX_NAME = 255;

/**
 * Links an LDAP group, or the people that a filter finds, to a group. The next sync gives them the role. A link to a
 * provider that is not configured is stored, but has no effect until it is configured.
 *
 * @throws `forbidden`, `parameters`, `invalid` (a bad name or filter, or a link that already exists)
 */
export const createLdapGroupLink = async (
  ctx: Context,
  given: GroupRow,
  { provider, group_access, ...target }: NewLdapGroupLink,
): Promise<LdapGroupLink> => {
  await requireManageLdap(ctx, given);
  if (!ROLES.some((role) => role === group_access)) {
    throw badParameters(`group_access does not have a valid value (allowed: ${ROLES.join(', ')})`);
  }
  const { cn, filter } = checkTarget(target);
  if (provider.trim() === '') throw invalid({ provider: ["can't be blank"] });
  if (isLongerThan(provider, MAX_NAME)) throw invalid({ provider: [tooLong(MAX_NAME)] });
  return ctx.transaction(async (tx) => {
    const group = await lockManaged(tx, given);
    const link = await tx.db
      .insertInto('ldap_group_links')
      .values({ namespace_id: group.id, provider, group_access, cn, filter })
      .onConflict((on) => on.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (!link) throw invalid({ [cn === null ? 'filter' : 'cn']: ['has already been taken'] });
    await noteFirstLink(tx, group.id);
    tx.emit(ldapGroupLinkCreated, {
      ...ldapScope(group),
      subject: { type: 'LdapGroupLink', id: link.id },
      payload: described(group, link),
    });
    return link;
  });
};

/**
 * Deletes the links to a name or filter at one provider or, without a provider, at all of them. The next sync removes
 * the roles.
 *
 * @throws `forbidden`, `parameters`, `not_found` (Linked LDAP Group)
 */
export const deleteLdapGroupLinks = async (
  ctx: Context,
  given: GroupRow,
  { provider, ...target }: LdapTarget & { readonly provider?: string | undefined },
): Promise<void> => {
  await requireManageLdap(ctx, given);
  const { cn, filter } = target;
  if ((cn === undefined) === (filter === undefined)) throw badParameters('cn, filter are mutually exclusive');
  await ctx.transaction(async (tx) => {
    const group = await lockManaged(tx, given);
    let query = tx.db.deleteFrom('ldap_group_links').where('namespace_id', '=', group.id);
    query =
      cn === undefined ? query.where('filter', '=', filter ?? '') : query.where(sql`lower(cn)`, '=', cn.toLowerCase());
    if (provider !== undefined) query = query.where('provider', '=', provider);
    const links = await query.returningAll().execute();
    if (links.length === 0) throw notFound('Linked LDAP Group');
    await noteFirstLink(tx, group.id);
    for (const link of links) {
      tx.emit(ldapGroupLinkDeleted, {
        ...ldapScope(group),
        subject: { type: 'LdapGroupLink', id: link.id },
        payload: described(group, link),
      });
    }
  });
};

/**
 * Queues a sync of the group's members with its links, for any Owner (specification 3 §5). At most one sync of a group
 * runs at a time, and a newer request supersedes it.
 *
 * @throws `forbidden`
 */
export const requestLdapSync = async (ctx: Context, group: GroupRow): Promise<void> => {
  requireGroupAbility(ctx, group, 'admin_ldap_group_link');
  await ctx.transaction(async (tx) => queueSync(tx, (await lockGroupFor(tx, group, 'admin_ldap_group_link')).id));
};

/** Locks the group, and returns its current row if the caller can still manage its links. */
const lockManaged = async (tx: Tx, given: GroupRow): Promise<GroupRow> => {
  const group = await lockGroupFor(tx, given, 'admin_ldap_group_link');
  await requireManageLdap(tx, group);
  return group;
};

const checkTarget = ({ cn, filter }: LdapTarget): { readonly cn: string | null; readonly filter: string | null } => {
  if (cn !== undefined && filter !== undefined) throw badParameters('cn, filter are mutually exclusive');
  if (filter !== undefined) {
    if (!isFilter(filter)) throw invalid({ filter: ['must be a valid LDAP filter'] });
    return { cn: null, filter };
  }
  if (cn === undefined) throw badParameters('cn, filter are missing, exactly one parameter must be provided');
  if (cn.trim() === '') throw invalid({ cn: ["can't be blank"] });
  if (isLongerThan(cn, MAX_NAME)) throw invalid({ cn: [tooLong(MAX_NAME)] });
  return { cn, filter: null };
};

/** Stores the oldest link that has a name, which the record of the group shows. */
const noteFirstLink = async (tx: Tx, groupId: number): Promise<void> => {
  await sql`
    update namespaces set (ldap_cn, ldap_access) = (
      select cn, group_access from ldap_group_links where namespace_id = ${groupId} and cn is not null order by id limit 1)
    where id = ${groupId}`.execute(tx.db);
};

const described = ({ id, full_path }: GroupRow, link: LdapGroupLink) => ({
  id: link.id,
  group: { id, full_path },
  provider: link.provider,
  cn: link.cn,
  filter: link.filter,
  group_access: link.group_access,
});
