import { z } from 'zod';
import { getGroup } from '#domains/groups/queries.ts';
import { DomainError } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, exclusive, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { createLdapGroupLink, deleteLdapGroupLinks, requestLdapSync } from './commands.ts';
import { type LdapGroupLink, listLdapGroupLinks } from './queries.ts';

const tag = 'LDAP group links';

const ldapGroupLinkRecord = z
  .object({
    cn: z.string().nullable(),
    filter: z.string().nullable(),
    group_access: z.int(),
    provider: z.string(),
  })
  .meta({ id: 'LdapGroupLink' });

const toRecord = ({ cn, filter, group_access, provider }: LdapGroupLink) => ({ cn, filter, group_access, provider });

const target = { cn: text().optional(), filter: text().optional() };
const rules = [atLeastOneOf('cn', 'filter'), exclusive('cn', 'filter')] as const;

/** Specification 3 §4.6. */
const LINKS = {
  replacedBy: 'DELETE /groups/:id/ldap_group_links with the parameters `cn` and `provider`',
  successor: '/groups/:id/ldap_group_links',
};

export const routes: readonly Route[] = [
  listRoute({
    path: '/groups/:id/ldap_group_links',
    tag,
    summary: 'List the LDAP group links of a group',
    description: '404 when the group has none.',
    paging: 'offset',
    input: { id: idOrPath() },
    item: ldapGroupLinkRecord,
    run: async (ctx, { id }, page) => {
      const links = await readPage(await listLdapGroupLinks(ctx, await getGroup(ctx, id)), page);
      if (links.total === 0) throw new DomainError('not_found', 'No linked LDAP groups found');
      return { ...links, items: links.items.map(toRecord) };
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/ldap_group_links',
    tag,
    summary: 'Link a group to an LDAP group, or to the people that a filter finds',
    input: { id: idOrPath(), ...target, group_access: integer(), provider: text() },
    rules: [...rules],
    response: ldapGroupLinkRecord,
    run: async (ctx, { id, ...link }) => toRecord(await createLdapGroupLink(ctx, await getGroup(ctx, id), link)),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/ldap_group_links',
    tag,
    summary: 'Delete an LDAP group link',
    input: { id: idOrPath(), ...target, provider: text() },
    rules: [...rules],
    response: null,
    run: async (ctx, { id, ...link }) => deleteLdapGroupLinks(ctx, await getGroup(ctx, id), link),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/ldap_group_links/:cn',
    tag,
    summary: 'Delete the LDAP group links of this name',
    deprecated: LINKS,
    input: { id: idOrPath(), cn: text() },
    response: null,
    run: async (ctx, { id, cn }) => deleteLdapGroupLinks(ctx, await getGroup(ctx, id), { cn }),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/ldap_group_links/:provider/:cn',
    tag,
    summary: 'Delete an LDAP group link of a provider',
    deprecated: LINKS,
    input: { id: idOrPath(), cn: text(), provider: text() },
    response: null,
    run: async (ctx, { id, ...link }) => deleteLdapGroupLinks(ctx, await getGroup(ctx, id), link),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/ldap_sync',
    tag,
    summary: 'Sync the members of a group with its LDAP links',
    status: 202,
    input: { id: idOrPath() },
    response: z.object({ message: z.literal('202 Accepted') }),
    run: async (ctx, { id }) => {
      await requestLdapSync(ctx, await getGroup(ctx, id));
      return { message: '202 Accepted' as const };
    },
  }),
];
