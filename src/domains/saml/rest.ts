import { z } from 'zod';
import { getGroup } from '#domains/groups/queries.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { createSamlGroupLink, deleteSamlGroupLink } from './commands.ts';
import { getSamlGroupLink, listSamlGroupLinks, type SamlGroupLink } from './queries.ts';

const tag = 'SAML group links';

const samlGroupLinkRecord = z
  .object({ name: z.string(), access_level: z.int(), member_role_id: z.int().nullable() })
  .meta({ id: 'SamlGroupLink' });

const toRecord = ({ name, access_level, member_role_id }: SamlGroupLink) => ({ name, access_level, member_role_id });

/** Specification 3 §4.6. */
export const routes: readonly Route[] = [
  listRoute({
    path: '/groups/:id/saml_group_links',
    tag,
    summary: 'List the SAML group links of a group',
    paging: 'offset',
    input: { id: idOrPath() },
    item: samlGroupLinkRecord,
    run: async (ctx, { id }, page) => {
      const links = await readPage(listSamlGroupLinks(ctx, await getGroup(ctx, id)), page);
      return { ...links, items: links.items.map(toRecord) };
    },
  }),
  route({
    method: 'GET',
    path: '/groups/:id/saml_group_links/:saml_group_name',
    tag,
    summary: 'Get a SAML group link',
    input: { id: idOrPath(), saml_group_name: text() },
    response: samlGroupLinkRecord,
    run: async (ctx, { id, saml_group_name }) =>
      toRecord(await getSamlGroupLink(ctx, await getGroup(ctx, id), saml_group_name)),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/saml_group_links',
    tag,
    summary: 'Link a group of the SAML provider to a group',
    input: {
      id: idOrPath(),
      saml_group_name: text(),
      access_level: integer(),
      member_role_id: integer({ min: 1 }).optional(),
    },
    response: samlGroupLinkRecord,
    run: async (ctx, { id, ...link }) => toRecord(await createSamlGroupLink(ctx, await getGroup(ctx, id), link)),
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id/saml_group_links/:saml_group_name',
    tag,
    summary: 'Delete a SAML group link',
    input: { id: idOrPath(), saml_group_name: text() },
    response: null,
    run: async (ctx, { id, saml_group_name }) => deleteSamlGroupLink(ctx, await getGroup(ctx, id), saml_group_name),
  }),
];
