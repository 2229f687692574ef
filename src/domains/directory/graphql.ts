import { AccessLevelEnum, AccessLevelRef } from '#domains/access/graphql.ts';
import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createLdapGroupLink, deleteLdapGroupLinks, requestLdapSync } from './commands.ts';
import { mayManageLdap } from './policy.ts';
import { findLdapSync, type LdapGroupLink, type LdapSync, listLdapGroupLinks } from './queries.ts';

const LdapGroupLinkRef = builder.objectRef<LdapGroupLink>('LdapGroupLink').implement({
  description: 'The role that a sync gives to the members of an LDAP group, or to the people that a filter finds.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (link) => gid('LdapGroupLink', link.id) }),
    provider: t.exposeString('provider', { nullable: false }),
    cn: t.exposeString('cn', { nullable: true }),
    filter: t.exposeString('filter', { nullable: true }),
    groupAccess: t.field({ type: AccessLevelRef, nullable: false, resolve: (link) => link.group_access }),
  }),
});

const LdapGroupLinkConnection = builder.connectionObject(
  { type: LdapGroupLinkRef, name: 'LdapGroupLinkConnection' },
  { name: 'LdapGroupLinkEdge' },
);

const LdapSyncStateEnum = builder.enumType('LdapSyncState', {
  description: 'The state of a sync.',
  values: upperCase(['queued', 'running', 'finished', 'failed']),
});

const STATES = ['queued', 'running', 'finished', 'failed'] as const;

const LdapSyncRef = builder.objectRef<LdapSync>('LdapSync').implement({
  description: 'The latest sync of a group with its LDAP links.',
  fields: (t) => ({
    state: t.field({
      type: LdapSyncStateEnum,
      nullable: true,
      resolve: ({ state }) => STATES.find((each) => each === state),
    }),
    total: t.exposeInt('total', { nullable: false, description: 'The number of people to check.' }),
    processed: t.exposeInt('processed', { nullable: false }),
    added: t.exposeInt('added', { nullable: false }),
    changed: t.exposeInt('changed', { nullable: false }),
    removed: t.exposeInt('removed', { nullable: false }),
    error: t.exposeString('error', { nullable: true }),
    startedAt: t.expose('started_at', { type: 'Time', nullable: true }),
    finishedAt: t.expose('finished_at', { type: 'Time', nullable: true }),
  }),
});

builder.objectField(GroupRef, 'ldapGroupLinks', (t) =>
  t.connection(
    {
      type: LdapGroupLinkRef,
      nullable: true,
      description: 'Oldest first. Visible to callers who can change them; null for others.',
      resolve: async (group, args, ctx, info) =>
        (await mayManageLdap(ctx, group)) ? listConnection(args, info, listLdapGroupLinks(ctx, group)) : null,
    },
    LdapGroupLinkConnection,
  ),
);

builder.objectField(GroupRef, 'ldapSync', (t) =>
  t.field({
    type: LdapSyncRef,
    nullable: true,
    description: 'Visible to callers who can request a sync; null for others.',
    resolve: (group, _args, ctx) => (canOnGroup(ctx, group, 'admin_ldap_group_link') ? findLdapSync(ctx, group) : null),
  }),
);

mutationField('ldapGroupLinkCreate', {
  description: 'Links an LDAP group, or the people that a filter finds. Give one of `cn` and `filter`.',
  input: (t) => ({
    groupPath: t.id({ required: true }),
    provider: t.string({ required: true }),
    cn: t.string(),
    filter: t.string(),
    groupAccess: t.field({ type: AccessLevelEnum, required: true }),
  }),
  payload: { ldapGroupLink: LdapGroupLinkRef },
  run: async (ctx, { groupPath, provider, cn, filter, groupAccess }) => ({
    ldapGroupLink: await createLdapGroupLink(ctx, await getGroup(ctx, { path: groupPath }), {
      provider,
      cn: cn ?? undefined,
      filter: filter ?? undefined,
      group_access: groupAccess,
    }),
  }),
});

mutationField('ldapGroupLinkDelete', {
  description: 'Deletes an LDAP group link. Give one of `cn` and `filter`. The next sync removes the roles.',
  input: (t) => ({
    groupPath: t.id({ required: true }),
    provider: t.string({ required: true }),
    cn: t.string(),
    filter: t.string(),
  }),
  payload: { group: GroupRef },
  run: async (ctx, { groupPath, provider, cn, filter }) => {
    const group = await getGroup(ctx, { path: groupPath });
    await deleteLdapGroupLinks(ctx, group, { provider, cn: cn ?? undefined, filter: filter ?? undefined });
    return { group };
  },
});

mutationField('groupLdapSync', {
  description: 'Syncs the members of a group with its LDAP links, in the background.',
  input: (t) => ({ groupPath: t.id({ required: true }) }),
  payload: { group: GroupRef },
  run: async (ctx, { groupPath }) => {
    const group = await getGroup(ctx, { path: groupPath });
    await requestLdapSync(ctx, group);
    return { group };
  },
});
