import { AccessLevelEnum, AccessLevelRef } from '#domains/access/graphql.ts';
import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createSamlGroupLink, deleteSamlGroupLink } from './commands.ts';
import { listSamlGroupLinks, type SamlGroupLink } from './queries.ts';

const SamlGroupLinkRef = builder.objectRef<SamlGroupLink>('SamlGroupLink').implement({
  description: 'The role that members of a group at the SAML provider get when they sign in.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (link) => gid('SamlGroupLink', link.id) }),
    name: t.exposeString('name', { nullable: false }),
    accessLevel: t.field({ type: AccessLevelRef, nullable: false, resolve: (link) => link.access_level }),
    memberRoleId: t.exposeInt('member_role_id', { nullable: true }),
  }),
});

const SamlGroupLinkConnection = builder.connectionObject(
  { type: SamlGroupLinkRef, name: 'SamlGroupLinkConnection' },
  { name: 'SamlGroupLinkEdge' },
);

builder.objectField(GroupRef, 'samlGroupLinks', (t) =>
  t.connection(
    {
      type: SamlGroupLinkRef,
      nullable: true,
      description: 'Oldest first. Visible to Owners; null for others.',
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_saml_group_link')
          ? listConnection(args, info, listSamlGroupLinks(ctx, group))
          : null,
    },
    SamlGroupLinkConnection,
  ),
);

mutationField('samlGroupLinkCreate', {
  description: 'Links a group of the SAML provider. Its members get the role when they sign in.',
  input: (t) => ({
    groupPath: t.id({ required: true }),
    samlGroupName: t.string({ required: true }),
    accessLevel: t.field({ type: AccessLevelEnum, required: true }),
    memberRoleId: t.int(),
  }),
  payload: { samlGroupLink: SamlGroupLinkRef },
  run: async (ctx, { groupPath, samlGroupName, accessLevel, memberRoleId }) => ({
    samlGroupLink: await createSamlGroupLink(ctx, await getGroup(ctx, { path: groupPath }), {
      saml_group_name: samlGroupName,
      access_level: accessLevel,
      member_role_id: memberRoleId ?? undefined,
    }),
  }),
});

mutationField('samlGroupLinkDelete', {
  description: 'Deletes a SAML group link. The roles it gave are removed when their users next sign in.',
  input: (t) => ({ groupPath: t.id({ required: true }), samlGroupName: t.string({ required: true }) }),
  payload: { group: GroupRef },
  run: async (ctx, { groupPath, samlGroupName }) => {
    const group = await getGroup(ctx, { path: groupPath });
    await deleteSamlGroupLink(ctx, group, samlGroupName);
    return { group };
  },
});
