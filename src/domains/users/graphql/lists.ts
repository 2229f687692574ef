import { CustomAttributeInput, wantedAttributes } from '#domains/custom-attributes/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { CurrentUserRef, loadRow, UserConnection, UserRef } from '../graphql.ts';
import { findUser, findUserByUsername, listUsers } from '../queries.ts';

const SORTS = {
  ID_ASC: { order_by: 'id', sort: 'asc' },
  ID_DESC: { order_by: 'id', sort: 'desc' },
  NAME_ASC: { order_by: 'name', sort: 'asc' },
  NAME_DESC: { order_by: 'name', sort: 'desc' },
  USERNAME_ASC: { order_by: 'username', sort: 'asc' },
  USERNAME_DESC: { order_by: 'username', sort: 'desc' },
  CREATED_ASC: { order_by: 'created_at', sort: 'asc' },
  CREATED_DESC: { order_by: 'created_at', sort: 'desc' },
  UPDATED_ASC: { order_by: 'updated_at', sort: 'asc' },
  UPDATED_DESC: { order_by: 'updated_at', sort: 'desc' },
} as const;

const UserSort = builder.enumType('UserSort', {
  values: [
    'ID_ASC',
    'ID_DESC',
    'NAME_ASC',
    'NAME_DESC',
    'USERNAME_ASC',
    'USERNAME_DESC',
    'CREATED_ASC',
    'CREATED_DESC',
    'UPDATED_ASC',
    'UPDATED_DESC',
  ] as const satisfies readonly (keyof typeof SORTS)[],
});

builder.queryField('currentUser', (t) =>
  t.field({
    type: CurrentUserRef,
    nullable: true,
    description: 'The caller. Null for anonymous callers.',
    resolve: (_root, _args, ctx) => (ctx.actor.userId === null ? null : loadRow(ctx, ctx.actor.userId)),
  }),
);

builder.queryField('user', (t) =>
  t.field({
    type: UserRef,
    nullable: true,
    args: { id: t.arg({ type: 'UserID' }), username: t.arg.string() },
    resolve: (_root, { id, username }, ctx) => {
      if (username != null) return findUserByUsername(ctx, username);
      // Ids can be enumerated, so only signed-in callers can look users up by id, as in REST.
      return id != null && ctx.actor.userId !== null ? findUser(ctx, id) : null;
    },
  }),
);

builder.queryField('users', (t) =>
  t.connection(
    {
      type: UserRef,
      nullable: true,
      args: {
        ids: t.arg({ type: ['UserID'] }),
        usernames: t.arg.stringList(),
        search: t.arg.string(),
        admins: t.arg.boolean(),
        auditors: t.arg.boolean(),
        pendingApproval: t.arg.boolean({
          description: 'Administrators only. Accounts that wait for approval.',
        }),
        active: t.arg.boolean(),
        blocked: t.arg.boolean(),
        external: t.arg.boolean(),
        excludeExternal: t.arg.boolean(),
        excludeInternal: t.arg.boolean(),
        humans: t.arg.boolean(),
        withoutProjectBots: t.arg.boolean(),
        withoutProjects: t.arg.boolean(),
        twoFactor: t.arg.boolean(),
        provider: t.arg.string({ description: 'Requires `externUid`.' }),
        externUid: t.arg.string({ description: 'Requires `provider`.' }),
        samlProviderId: t.arg.int(),
        skipLdap: t.arg.boolean(),
        customAttributes: t.arg({
          type: [CustomAttributeInput],
          description: 'Administrators only. All of them must match.',
        }),
        createdAfter: t.arg({ type: 'Time' }),
        createdBefore: t.arg({ type: 'Time' }),
        sort: t.arg({ type: UserSort }),
      },
      resolve: (_root, args, ctx, info) =>
        listConnection(
          args,
          info,
          listUsers(ctx, {
            ids: args.ids ?? undefined,
            usernames: args.usernames ?? undefined,
            search: args.search ?? undefined,
            admins: args.admins ?? undefined,
            auditors: args.auditors ?? undefined,
            pending_approval: args.pendingApproval ?? undefined,
            active: args.active ?? undefined,
            blocked: args.blocked ?? undefined,
            external: args.external ?? undefined,
            exclude_external: args.excludeExternal ?? undefined,
            exclude_internal: args.excludeInternal ?? undefined,
            humans: args.humans ?? undefined,
            without_project_bots: args.withoutProjectBots ?? undefined,
            without_projects: args.withoutProjects ?? undefined,
            two_factor: args.twoFactor == null ? undefined : args.twoFactor ? 'enabled' : 'disabled',
            provider: args.provider ?? undefined,
            extern_uid: args.externUid ?? undefined,
            saml_provider_id: args.samlProviderId ?? undefined,
            skip_ldap: args.skipLdap ?? undefined,
            custom_attributes: wantedAttributes(args.customAttributes),
            created_after: args.createdAfter ?? undefined,
            created_before: args.createdBefore ?? undefined,
            ...(args.sort ? SORTS[args.sort] : {}),
          }),
        ),
    },
    UserConnection,
  ),
);
