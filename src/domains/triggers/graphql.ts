import { JUDGED, loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { createTrigger, deleteTrigger, updateTrigger } from './commands.ts';
import { shownToken, type TriggerRow } from './model.ts';
import { findTrigger, listTriggersBelow } from './queries.ts';

const TriggerRef = builder.objectRef<TriggerRow>('PipelineTrigger').implement({
  description: 'A token that starts pipelines.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::Trigger', id) }),
    description: t.exposeString('description'),
    token: t.string({
      description: 'Whole only for the owner. Null if it was encrypted with a lost key.',
      resolve: (row, _args, ctx) => shownToken(ctx, row),
    }),
    lastUsed: t.expose('last_used_at', { type: 'Time' }),
    owner: t.field({
      type: UserRef,
      resolve: ({ owner_id }, _args, ctx) => (owner_id === null ? null : loadUser(ctx, owner_id)),
    }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
  }),
});

const TriggerConnection = builder.connectionObject(
  { type: TriggerRef, name: 'PipelineTriggerConnection' },
  { name: 'PipelineTriggerEdge' },
);

const projectTriggers = batchedConnection((ctx, _args: ConnectionArguments) => listTriggersBelow(ctx));

projectField('pipelineTriggers', JUDGED, (t) =>
  t.connection(
    {
      type: TriggerRef,
      nullable: true,
      description: 'Only for maintainers; null for other callers.',
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_trigger') ? projectTriggers(project.id, args, ctx, info) : null,
    },
    TriggerConnection,
  ),
);

const which = (t: InputFields) => ({ id: t.field({ type: 'CiPipelineTriggerID', required: true }) });

const projectOf = async (ctx: Context, id: number) => {
  const row = await findTrigger(ctx, id);
  if (!row) throw notFound('Trigger');
  return getProject(ctx, { id: row.project_id });
};

mutationField('pipelineTriggerCreate', {
  description: 'Creates a trigger. Its pipelines run with the rights of the caller.',
  input: (t) => ({ projectPath: t.id({ required: true }), description: t.string({ required: true }) }),
  payload: { pipelineTrigger: TriggerRef },
  run: async (ctx, { projectPath, description }) => ({
    pipelineTrigger: await createTrigger(ctx, await getProject(ctx, { path: projectPath }), description),
  }),
});

mutationField('pipelineTriggerUpdate', {
  description: 'Changes a trigger. Only its owner may.',
  input: (t) => ({ ...which(t), description: t.string({ required: true }) }),
  payload: { pipelineTrigger: TriggerRef },
  run: async (ctx, { id, description }) => ({
    pipelineTrigger: await updateTrigger(ctx, await projectOf(ctx, id), id, description),
  }),
});

mutationField('pipelineTriggerDelete', {
  description: 'Deletes a trigger. Requests with its token are refused from then on.',
  input: which,
  payload: {},
  run: async (ctx, { id }) => {
    await deleteTrigger(ctx, await projectOf(ctx, id), id);
    return {};
  },
});
