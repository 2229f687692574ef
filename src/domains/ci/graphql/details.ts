import type { GraphQLResolveInfo } from 'graphql';
import { MAINTAINER } from '#domains/access/model.ts';
import { loadProject } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedProtections, CommitRef } from '#domains/repositories/graphql.ts';
import { ManagerRef, RunnerRef } from '#domains/runners/graphql.ts';
import { managersByIds } from '#domains/runners/manager-queries.ts';
import { visibleRunnersByIds } from '#domains/runners/queries.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { mayReadVariables } from '../commands.ts';
import { JobPermissionsRef, JobRef, loadPipeline, PipelineRef } from '../graphql.ts';
import { type ManualVariable, manualVariablesByJobIds, variablesByPipelineIds } from '../pipeline-variables.ts';
import { mayRunOn } from '../policy.ts';
import { stuckByJobIds, stuckByPipelineIds } from '../processing/stuck.ts';
import type { PipelineRow } from '../queries.ts';
import { readableGivenValue } from '../sealed-values.ts';
import { mayRun, mayStop } from './running.ts';

// The details that pages show beside the status of a pipeline or job: its runner, its variables, and the caller's
// rights.

const loadStuckJob = loader(stuckByJobIds);
const loadStuckPipeline = loader(stuckByPipelineIds);
const loadRunner = loader(visibleRunnersByIds);
const loadManager = loader(managersByIds);
const loadPipelineVariables = loader(variablesByPipelineIds);
const loadJobVariables = loader(manualVariablesByJobIds);

const ManualVariableRef = builder.objectRef<ManualVariable>('CiManualVariable').implement({
  description: 'A variable that was given to a pipeline, or with playing a job.',
  fields: (t) => ({
    key: t.exposeString('key'),
    value: t.string({
      description: 'Null if it was encrypted with a lost key.',
      resolve: ({ sealed_value }, _args, ctx) => readableGivenValue(ctx, sealed_value),
    }),
    raw: t.exposeBoolean('raw', {
      description: 'Whether references to other variables in the value stay as they are.',
    }),
  }),
});
const ManualVariableConnection = builder.connectionObject(
  { type: ManualVariableRef, name: 'CiManualVariableConnection' },
  { name: 'CiManualVariableEdge' },
);

/** Whether the caller has the ability in the project of the row. */
const mayIn = async (
  ctx: Context,
  { project_id }: { readonly project_id: number },
  ability: Parameters<typeof can>[2],
): Promise<boolean> => {
  const project = await loadProject(ctx, project_id);
  return project !== null && can(ctx, project, ability);
};

const PipelinePermissions = builder.objectRef<PipelineRow>('PipelinePermissions').implement({
  description: 'What the caller may do with a pipeline.',
  fields: (t) => ({
    updatePipeline: t.boolean({ nullable: false, resolve: (row, _args, ctx) => mayRun(ctx, row) }),
    cancelPipeline: t.boolean({ nullable: false, resolve: (row, _args, ctx) => mayStop(ctx, row) }),
    adminPipeline: t.boolean({ nullable: false, resolve: (row, _args, ctx) => mayIn(ctx, row, 'admin_pipeline') }),
    destroyPipeline: t.boolean({ nullable: false, resolve: (row, _args, ctx) => mayIn(ctx, row, 'remove_pipeline') }),
  }),
});

JobPermissionsRef.implement({
  description: 'What the caller may do with a job.',
  fields: (t) => ({
    // Everyone who can see the job may read it.
    readBuild: t.boolean({ nullable: false, resolve: () => true }),
    updateBuild: t.boolean({ nullable: false, resolve: (row, _args, ctx) => mayRun(ctx, row) }),
    cancelBuild: t.boolean({ nullable: false, resolve: (row, _args, ctx) => mayStop(ctx, row) }),
  }),
});

/** Commits by project and id. */
const loadCommit = loader(async (ctx: Context, keys: readonly string[]) => {
  const byProject = Map.groupBy(keys, (key) => Number(key.split(' ')[0]));
  const found = await Promise.all(
    [...byProject].map(async ([projectId, members]) => {
      const project = await loadProject(ctx, projectId);
      if (!project || !can(ctx, project, 'read_code')) return [];
      const shas = members.map((key) => key.split(' ')[1] ?? '');
      const commits = await ctx.services.git.readCommits(project.disk_path, shas);
      return commits.map((commit) => [`${projectId} ${commit.id}`, { ...commit, project }] as const);
    }),
  );
  return new Map(found.flat());
});

const variablesOf = async (row: PipelineRow, args: ConnectionArguments, ctx: Context, info: GraphQLResolveInfo) => {
  const project = await loadProject(ctx, row.project_id);
  if (
    !project ||
    !(await mayRunOn(ctx, project, row, batchedProtections)) ||
    !(await mayReadVariables(ctx, project, row))
  )
    return null;
  return connection(args, info, async (page) =>
    pageOfAll(page, (await loadPipelineVariables(ctx, row.id)) ?? [], ({ key }) => [key]),
  );
};

builder.objectFields(PipelineRef, (t) => ({
  stuck: t.boolean({
    nullable: false,
    description: 'Whether one of its jobs waits, and no runner that is online may take it.',
    resolve: async ({ id }, _args, ctx) => (await loadStuckPipeline(ctx, id)) ?? false,
  }),
  commit: t.field({
    type: CommitRef,
    description: 'Null if the caller may not read the code, or the repository lost it.',
    extensions: { cost: 5 },
    resolve: ({ project_id, sha }, _args, ctx) => (sha === null ? null : loadCommit(ctx, `${project_id} ${sha}`)),
  }),
  manualVariables: t.connection(
    {
      type: ManualVariableRef,
      description: 'The variables that it was given. For its user and for Maintainers; null for others.',
      resolve: variablesOf,
    },
    ManualVariableConnection,
  ),
  variables: t.connection(
    {
      type: ManualVariableRef,
      description: 'The same as `manualVariables`.',
      resolve: variablesOf,
    },
    ManualVariableConnection,
  ),
  userPermissions: t.field({ type: PipelinePermissions, nullable: false, resolve: (row) => row }),
}));

builder.objectFields(JobRef, (t) => ({
  stuck: t.boolean({
    nullable: false,
    description: 'Whether it waits, and no runner that is online may take it.',
    resolve: async ({ id, status }, _args, ctx) => status === 'pending' && ((await loadStuckJob(ctx, id)) ?? false),
  }),
  triggered: t.boolean({
    description: 'Whether a trigger token started its pipeline.',
    resolve: async ({ pipeline_id }, _args, ctx) => (await loadPipeline(ctx, pipeline_id))?.source === 'trigger',
  }),
  runner: t.field({
    type: RunnerRef,
    description: 'The runner that got it. Null for callers who cannot see the runner.',
    resolve: ({ runner_id }, _args, ctx) => (runner_id === null ? null : loadRunner(ctx, runner_id)),
  }),
  runnerManager: t.field({
    type: ManagerRef,
    description: 'The machine that got it. Null for callers who cannot see the runner.',
    resolve: async ({ runner_id, runner_manager_id }, _args, ctx) => {
      if (runner_id === null || runner_manager_id === null || !(await loadRunner(ctx, runner_id))) return null;
      return loadManager(ctx, runner_manager_id);
    },
  }),
  manualVariables: t.connection(
    {
      type: ManualVariableRef,
      description: 'The variables that it was played with. For its user and for Maintainers; null for others.',
      resolve: async (row, args, ctx, info) => {
        const project = await loadProject(ctx, row.project_id);
        const { userId, isSystem } = ctx.actor;
        const isOwn = userId !== null && userId === row.user_id;
        if (!project || !(await mayRunOn(ctx, project, row, batchedProtections))) return null;
        if (!isOwn && project.access_level < MAINTAINER && !isSystem) return null;
        return connection(args, info, async (page) =>
          pageOfAll(page, (await loadJobVariables(ctx, row.id)) ?? [], ({ key }) => [key]),
        );
      },
    },
    ManualVariableConnection,
  ),
  userPermissions: t.field({ type: JobPermissionsRef, nullable: false, resolve: (row) => row }),
}));
