import { AccessLevelEnum, VisibilityLevelsEnum } from '#domains/access/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { GroupConnection, GroupRef, NamespaceRef } from '../graphql.ts';
import { listGroups } from '../listing.ts';
import { findGroup, findNamespace } from '../queries.ts';

const SORTS = {
  NAME_ASC: { orderBy: 'name', sort: 'asc' },
  NAME_DESC: { orderBy: 'name', sort: 'desc' },
  PATH_ASC: { orderBy: 'path', sort: 'asc' },
  PATH_DESC: { orderBy: 'path', sort: 'desc' },
  ID_ASC: { orderBy: 'id', sort: 'asc' },
  ID_DESC: { orderBy: 'id', sort: 'desc' },
  SIMILARITY: { orderBy: 'similarity', sort: 'desc' },
} as const;

const GroupSort = builder.enumType('GroupSort', {
  values: ['NAME_ASC', 'NAME_DESC', 'PATH_ASC', 'PATH_DESC', 'ID_ASC', 'ID_DESC', 'SIMILARITY'],
});

builder.queryField('group', (t) =>
  t.field({
    type: GroupRef,
    nullable: true,
    args: { fullPath: t.arg.id({ required: true }) },
    resolve: (_root, { fullPath }, ctx) => findGroup(ctx, { path: fullPath }),
  }),
);

builder.queryField('namespace', (t) =>
  t.field({
    type: NamespaceRef,
    nullable: true,
    args: { fullPath: t.arg.id({ required: true }) },
    resolve: (_root, { fullPath }, ctx) => findNamespace(ctx, { path: fullPath }),
  }),
);

builder.queryField('groups', (t) =>
  t.connection(
    {
      type: GroupRef,
      nullable: true,
      args: {
        search: t.arg.string(),
        sort: t.arg({ type: GroupSort, defaultValue: 'NAME_ASC' }),
        ids: t.arg({ type: ['GroupID'] }),
        topLevelOnly: t.arg.boolean(),
        ownedOnly: t.arg.boolean(),
        allAvailable: t.arg.boolean({ defaultValue: true }),
        visibility: t.arg({ type: VisibilityLevelsEnum }),
        minAccessLevel: t.arg({ type: AccessLevelEnum }),
        parentPath: t.arg.id(),
        skipGroups: t.arg({ type: ['GroupID'] }),
        markedForDeletionOn: t.arg({ type: 'Date' }),
        repositoryStorage: t.arg.string({ description: 'Administrators only.' }),
      },
      resolve: async (_root, args, ctx, info) => {
        const parent = args.parentPath == null ? undefined : await findGroup(ctx, { path: args.parentPath });
        return listConnection(
          args,
          info,
          listGroups(ctx, {
            // If the caller cannot see the parent group, the list is empty.
            ids: parent === null ? [] : (args.ids ?? undefined),
            ancestorId: parent?.id,
            search: args.search ?? undefined,
            topLevelOnly: args.topLevelOnly ?? undefined,
            owned: args.ownedOnly ?? undefined,
            allAvailable: args.allAvailable ?? true,
            visibility: args.visibility ?? undefined,
            minAccessLevel: args.minAccessLevel ?? undefined,
            skipIds: args.skipGroups ?? undefined,
            markedForDeletionOn: args.markedForDeletionOn ?? undefined,
            repositoryStorage: args.repositoryStorage ?? undefined,
            ...SORTS[args.sort ?? 'NAME_ASC'],
          }),
        );
      },
    },
    GroupConnection,
  ),
);
