import { UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { NamespaceRef } from '../graphql.ts';
import { getNamespace, namespacesByOwnerIds } from '../queries.ts';
import { findNamespaceNamed, listNamespaces } from '../summaries.ts';

const NamespaceConnection = builder.connectionObject(
  { type: NamespaceRef, name: 'NamespaceConnection' },
  { name: 'NamespaceEdge' },
);

const loadPersonalNamespace = loader(namespacesByOwnerIds);

builder.interfaceField(UserRef, 'namespace', (t) =>
  t.field({
    type: NamespaceRef,
    nullable: true,
    description: 'The personal namespace.',
    resolve: (user, _args, ctx) => loadPersonalNamespace(ctx, user.id),
  }),
);

builder.queryField('namespaces', (t) =>
  t.connection(
    {
      type: NamespaceRef,
      nullable: true,
      description: 'Namespaces in which the caller holds a role: their own and their groups. Administrators get all.',
      args: { search: t.arg.string(), ownedOnly: t.arg.boolean(), topLevelOnly: t.arg.boolean() },
      resolve: (_root, args, ctx, info) =>
        listConnection(
          args,
          info,
          listNamespaces(ctx, {
            search: args.search ?? undefined,
            ownedOnly: args.ownedOnly ?? undefined,
            topLevelOnly: args.topLevelOnly ?? undefined,
          }),
        ),
    },
    NamespaceConnection,
  ),
);

const NamespacePath = builder
  .objectRef<{ readonly exists: boolean; readonly suggests: readonly string[] }>('NamespacePath')
  .implement({
    description: 'The availability of a namespace path.',
    fields: (t) => ({
      exists: t.exposeBoolean('exists', { nullable: false }),
      suggests: t.stringList({
        nullable: { list: false, items: false },
        description: 'A similar free path, if it is taken.',
        resolve: ({ suggests }) => [...suggests],
      }),
    }),
  });

builder.queryField('namespacePath', (t) =>
  t.field({
    type: NamespacePath,
    nullable: true,
    description: 'Whether a namespace has the path. Requires authentication.',
    args: { path: t.arg.string({ required: true }), parentPath: t.arg.id({ description: 'The top level if absent.' }) },
    resolve: async (_root, { path, parentPath }, ctx) => {
      if (ctx.actor.userId === null) return null;
      const parent = parentPath == null ? null : await getNamespace(ctx, { path: parentPath });
      return findNamespaceNamed(ctx, path, parent?.id ?? null);
    },
  }),
);
