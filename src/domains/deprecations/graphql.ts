import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import type { Kind } from './model.ts';
import { type DeprecatedUse, listDeprecatedUses } from './queries.ts';

const KindEnum = builder.enumType('DeprecatedUseCredential', {
  description:
    'The kinds of credential by which the use of deprecated names is counted. `NONE` is for anonymous callers.',
  values: {
    PERSONAL_ACCESS_TOKEN: { value: 'token' },
    OAUTH_TOKEN: { value: 'oauth_token' },
    SESSION: { value: 'session' },
    JOB_TOKEN: { value: 'job_token' },
    PASSWORD: { value: 'password' },
    NONE: { value: 'none' },
  } as const satisfies Record<string, { value: Kind }>,
});

const DeprecatedUseRef = builder.objectRef<DeprecatedUse>('DeprecatedUse').implement({
  description: 'How often a credential used a deprecated route, parameter, field or argument.',
  fields: (t) => ({
    name: t.exposeString('name', {
      nullable: false,
      description: 'Such as `GET /geo_nodes`, `PUT /projects/:id tag_list` or `MergeRequest.mergeStatus`.',
    }),
    credential: t.expose('kind', { type: KindEnum, nullable: false }),
    credentialId: t.string({
      description: 'The id of a personal access token. Null for the others.',
      resolve: ({ kind, credential }) => (kind === 'token' ? credential : null),
    }),
    credentialName: t.exposeString('credential_name', {
      description: 'The name of a personal access token, or of the application of an OAuth token.',
    }),
    user: t.field({
      type: UserRef,
      description: 'The user who holds the credential. Null for anonymous callers.',
      resolve: ({ holder_id }, _args, ctx) => (holder_id === null ? null : loadUser(ctx, holder_id)),
    }),
    uses: t.expose('uses', { type: 'BigInt', nullable: false }),
    firstDay: t.expose('first_day', { type: 'Date', nullable: false, description: 'The first day that was counted.' }),
    lastUsedAt: t.expose('last_used_at', { type: 'Time', nullable: false }),
  }),
});
const DeprecatedUseConnection = builder.connectionObject(
  { type: DeprecatedUseRef, name: 'DeprecatedUseConnection' },
  { name: 'DeprecatedUseEdge' },
);

builder.queryField('deprecatedUsage', (t) =>
  t.connection(
    {
      type: DeprecatedUseRef,
      nullable: true,
      description:
        'Who uses what version 5 of the REST API removes, or what is deprecated in GraphQL, most recent first. Administrators see all use, others that of their own credentials. Null for anonymous callers. Counts are complete after about two seconds, and kept for 90 days.',
      args: {
        name: t.arg.string({ description: 'Only the use of this name.' }),
        since: t.arg({ type: 'Date', description: 'The first day that counts.' }),
        mine: t.arg.boolean({ description: 'For administrators: only the use of their own credentials.' }),
      },
      resolve: async (_root, { name, since, mine, ...page }, ctx, info) =>
        ctx.actor.userId === null
          ? null
          : listConnection(
              page,
              info,
              await listDeprecatedUses(ctx, {
                name: name ?? undefined,
                since: since ?? undefined,
                mine: mine ?? undefined,
              }),
            ),
    },
    DeprecatedUseConnection,
  ),
);
