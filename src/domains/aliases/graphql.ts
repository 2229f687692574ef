import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createAlias, deleteAlias } from './commands.ts';
import type { AliasRow } from './model.ts';
import { getAlias, listAliases } from './queries.ts';

const AliasRef = builder.objectRef<AliasRow>('ProjectAlias').implement({
  description: "Another name for a project's repository in git. Administrators only.",
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('ProjectAlias', id) }),
    name: t.exposeString('name', { nullable: false }),
    project: t.field({
      type: ProjectRef,
      nullable: true,
      resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id),
    }),
  }),
});
const AliasConnection = builder.connectionObject(
  { type: AliasRef, name: 'ProjectAliasConnection' },
  { name: 'ProjectAliasEdge' },
);

builder.queryFields((t) => ({
  projectAliases: t.connection(
    {
      type: AliasRef,
      nullable: true,
      description: 'Only for administrators; null for other callers.',
      resolve: (_root, args, ctx, info) => (ctx.actor.isAdmin ? listConnection(args, info, listAliases(ctx)) : null),
    },
    AliasConnection,
  ),
  projectAlias: t.field({
    type: AliasRef,
    nullable: true,
    description: 'Only for administrators; null for other callers.',
    args: { name: t.arg.string({ required: true }) },
    resolve: (_root, { name }, ctx) => (ctx.actor.isAdmin ? orNull(getAlias(ctx, name)) : null),
  }),
}));

mutationField('projectAliasCreate', {
  description: "Gives a project's repository another name for git. Administrators only.",
  input: (t) => ({ projectPath: t.id({ required: true }), name: t.string({ required: true }) }),
  payload: { projectAlias: AliasRef },
  run: async (ctx, { projectPath, name }) => ({
    projectAlias: await createAlias(ctx, { name, project: { path: projectPath } }),
  }),
});

mutationField('projectAliasDestroy', {
  description: 'Deletes an alias. The project stays. Administrators only.',
  input: (t) => ({ name: t.string({ required: true }) }),
  payload: { projectAlias: AliasRef },
  run: async (ctx, { name }) => ({ projectAlias: await deleteAlias(ctx, name) }),
});
