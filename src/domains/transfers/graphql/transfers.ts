import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { cancelExport, cancelImport, cancelRelationImport, retryImport } from '../control.ts';
import { RelationProgressRef, relationsOf } from '../graphql.ts';
import { readCounts } from '../progress.ts';
import { retryRelationImport } from '../relation-imports/commands.ts';
import { findTransfer, itemRate, listTransfers, remainingSeconds, type Transfer } from '../transfers.ts';

const KindEnum = builder.enumType('TransferKind', {
  values: {
    EXPORT: { value: 'export' },
    IMPORT: { value: 'import' },
    RELATION_IMPORT: { value: 'relation_import' },
  } as const,
});

const StateEnum = builder.enumType('TransferState', {
  values: {
    WAITING: { value: 'waiting' },
    RUNNING: { value: 'running' },
    FINISHED: { value: 'finished' },
    FAILED: { value: 'failed' },
  } as const,
});

/** Only users who may export the project can read its transfers. */
const seesProblems = async (ctx: Context, { project_id }: Transfer): Promise<boolean> => {
  const project = await loadProject(ctx, project_id);
  return project !== null && can(ctx, project, 'export');
};

const TransferRef = builder.objectRef<Transfer>('Transfer').implement({
  description: 'An export, an import or a relation import.',
  fields: (t) => ({
    id: t.exposeID('key', { nullable: false }),
    kind: t.expose('kind', { type: KindEnum, nullable: false }),
    state: t.expose('state', { type: StateEnum, nullable: false }),
    detail: t.exposeString('detail', {
      description: 'The type of an import, such as `git`, or the relation of a relation import.',
    }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
    user: t.field({
      type: UserRef,
      description: 'The user who started it.',
      resolve: ({ user_id }, _args, ctx) => (user_id === null ? null : loadUser(ctx, user_id)),
    }),
    progress: t.exposeFloat('percentage', { nullable: false, description: 'In percent.' }),
    relations: t.field({
      type: [RelationProgressRef],
      nullable: { list: true, items: false },
      description: 'Only for Maintainers of the project.',
      resolve: async (row, _args, ctx) =>
        (await seesProblems(ctx, row)) ? relationsOf(readCounts(row.relations)) : null,
    }),
    itemsPerSecond: t.float({
      description: 'The average since it was started or retried. Null unless it is running.',
      resolve: (row, _args, ctx) => itemRate(ctx, row),
    }),
    remainingSeconds: t.int({
      description: 'At that pace. Null unless it is running.',
      resolve: (row, _args, ctx) => remainingSeconds(ctx, row),
    }),
    bytes: t.expose('bytes', { type: 'BigInt', nullable: false }),
    totalBytes: t.expose('total_bytes', { type: 'BigInt' }),
    error: t.string({
      description: 'Only for Maintainers of the project.',
      resolve: async (row, _args, ctx) => ((await seesProblems(ctx, row)) ? row.error : null),
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    startedAt: t.expose('started_at', { type: 'Time' }),
    finishedAt: t.expose('finished_at', { type: 'Time' }),
  }),
});

const TransferConnection = builder.connectionObject(
  { type: TransferRef, name: 'TransferConnection' },
  { name: 'TransferEdge' },
);

builder.queryField('transfers', (t) =>
  t.connection(
    {
      type: TransferRef,
      nullable: true,
      description: 'The transfers that the caller started, newest first. Administrators see those of everybody.',
      args: { kind: t.arg({ type: KindEnum }), state: t.arg({ type: StateEnum }) },
      resolve: (_root, args, ctx, info) =>
        ctx.actor.userId === null ? null : listConnection(args, info, listTransfers(ctx, args)),
    },
    TransferConnection,
  ),
);

builder.queryField('transfer', (t) =>
  t.field({
    type: TransferRef,
    description: 'A transfer that the caller started, or of a project that they may export.',
    args: { id: t.arg.id({ required: true }) },
    resolve: (_root, { id }, ctx) => findTransfer(ctx, String(id)),
  }),
);

const CONTROLS = {
  projectExportCancel: { description: 'Cancels the running export of a project.', run: cancelExport },
  projectImportCancel: {
    description: 'Cancels the running import of a project. What was imported stays.',
    run: cancelImport,
  },
  projectImportRetry: {
    description: 'Retries the failed import of a project. It continues where it stopped.',
    run: retryImport,
  },
  relationImportCancel: {
    description: 'Cancels the running relation import of a project. What was imported stays.',
    run: cancelRelationImport,
  },
  relationImportRetry: {
    description: 'Retries the last relation import of a project, if it has failed. It continues where it stopped.',
    run: retryRelationImport,
  },
} as const;

for (const [name, { description, run }] of Object.entries(CONTROLS)) {
  mutationField(name, {
    description,
    input: (t) => ({ projectPath: t.id({ required: true }) }),
    payload: { project: ProjectRef },
    run: async (ctx, { projectPath }) => {
      const path = String(projectPath);
      const project = await getProject(ctx, { path });
      await run(ctx, project);
      return { project: await getProject(ctx, { path }) };
    },
  });
}
