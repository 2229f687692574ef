import { GroupConnection, GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { updateProject } from '#domains/projects/commands.ts';
import { JUDGED, ProjectConnection, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import {
  attributeInputs,
  attributesOf,
  filterOf,
  ManagerRef,
  type RunnerArguments,
  RunnerConnection,
  RunnerRef,
  runnerArguments,
  TypeEnum,
} from '../graphql.ts';
import { deleteRunner, deleteRunners, updateRunner } from '../management.ts';
import { listManagersBelow } from '../manager-queries.ts';
import type { CreatedRunner, RunnerRow, RunnerType } from '../model.ts';
import { countsOfRunners, listRunnersBelow, ownedByIds, projectsOfRunners, visibleRunnersByIds } from '../queries.ts';
import { type RegistrationPlace, resetRegistrationToken } from '../registration.ts';

const ManagerConnection = builder.connectionObject(
  { type: ManagerRef, name: 'CiRunnerManagerConnection' },
  { name: 'CiRunnerManagerEdge' },
);

const loadCounts = loader(countsOfRunners);
const loadProjects = loader(projectsOfRunners);
const loadVisible = loader(visibleRunnersByIds);
const loadOwned = loader(ownedByIds);
const runnerManagers = batchedConnection((ctx, _args: ConnectionArguments) => listManagersBelow(ctx));

const isOwned = async (ctx: Context, { id }: RunnerRow): Promise<boolean> => (await loadOwned(ctx, id)) ?? false;

const RunnerPermissions = builder.objectRef<RunnerRow | CreatedRunner>('RunnerPermissions').implement({
  description: 'What the caller may do with a runner.',
  fields: (t) => ({
    readRunner: t.boolean({
      nullable: false,
      resolve: async ({ id }, _args, ctx) => (await loadVisible(ctx, id)) !== null,
    }),
    updateRunner: t.boolean({ nullable: false, resolve: (runner, _args, ctx) => isOwned(ctx, runner) }),
    deleteRunner: t.boolean({
      nullable: false,
      resolve: async (runner, _args, ctx) => {
        const [owned, counts] = await Promise.all([isOwned(ctx, runner), loadCounts(ctx, runner.id)]);
        return owned && (ctx.actor.isAdmin || (counts?.projects ?? 0) <= 1);
      },
    }),
    assignRunner: t.boolean({
      nullable: false,
      description: 'Whether the caller can let it take jobs of more projects.',
      resolve: async (runner, _args, ctx) =>
        runner.runner_type === 'project_type' && !runner.locked && (await isOwned(ctx, runner)),
    }),
  }),
});

builder.objectFields(RunnerRef, (t) => ({
  userPermissions: t.field({ type: RunnerPermissions, nullable: false, resolve: (runner) => runner }),
  groups: t.connection(
    {
      type: GroupRef,
      nullable: true,
      description: 'The group of a group runner, if the caller can see it.',
      resolve: ({ namespace_id }, args, ctx, info) =>
        connection(args, info, async (page) => {
          const group = namespace_id === null ? null : await loadGroup(ctx, namespace_id);
          return pageOfAll(page, group ? [group] : [], ({ id }) => [id]);
        }),
    },
    GroupConnection,
  ),
  jobCount: t.int({
    nullable: true,
    description: 'The number of jobs that ran on it. 1001 means more than 1000.',
    resolve: async ({ id }, _args, ctx) => (await loadCounts(ctx, id))?.jobs ?? 0,
  }),
  projectCount: t.int({
    nullable: true,
    description: 'The number of projects that a project runner serves.',
    resolve: async ({ id }, _args, ctx) => (await loadCounts(ctx, id))?.projects ?? 0,
  }),
  managers: t.connection(
    { type: ManagerRef, nullable: true, resolve: ({ id }, args, ctx, info) => runnerManagers(id, args, ctx, info) },
    ManagerConnection,
  ),
  projects: t.connection(
    {
      type: ProjectRef,
      nullable: true,
      description: 'The projects that a project runner serves and that the caller can see.',
      resolve: (runner, args, ctx, info) =>
        connection(args, info, async (page) =>
          pageOfAll(page, (await loadProjects(ctx, runner.id)) ?? [], ({ id }) => [id]),
        ),
    },
    ProjectConnection,
  ),
}));

const projectRunners = batchedConnection((ctx, args: RunnerArguments & ConnectionArguments) =>
  listRunnersBelow(ctx, 'project', filterOf(args)),
);
const groupRunners = batchedConnection((ctx, args: RunnerArguments & ConnectionArguments) =>
  listRunnersBelow(ctx, 'group', filterOf(args)),
);

projectField('runners', [...JUDGED, 'id'], (t) =>
  t.connection(
    {
      type: RunnerRef,
      nullable: true,
      description: 'The runners that may take its jobs. Only for maintainers; null for other callers.',
      args: runnerArguments(t.arg),
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_runner') ? projectRunners(project.id, args, ctx, info) : null,
    },
    RunnerConnection,
  ),
);

builder.objectField(GroupRef, 'runners', (t) =>
  t.connection(
    {
      type: RunnerRef,
      nullable: true,
      description: 'Its own runners and those that it inherits. Only for owners; null for other callers.',
      args: runnerArguments(t.arg),
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_runner') ? groupRunners(group.id, args, ctx, info) : null,
    },
    RunnerConnection,
  ),
);

mutationField('runnerUpdate', {
  description: 'Changes a runner.',
  input: (t) => ({
    id: t.field({ type: 'CiRunnerID', required: true }),
    ...attributeInputs(t),
  }),
  payload: { runner: RunnerRef },
  run: async (ctx, input) => ({
    runner: await updateRunner(ctx, input.id, attributesOf(input)),
  }),
});

mutationField('runnerDelete', {
  description: 'Deletes a runner. Its token ends.',
  input: (t) => ({ id: t.field({ type: 'CiRunnerID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await deleteRunner(ctx, id);
    return {};
  },
});

mutationField('bulkRunnerDelete', {
  description: 'Deletes all of these runners, or none of them.',
  input: (t) => ({ ids: t.field({ type: ['CiRunnerID'], required: true }) }),
  payload: { deletedCount: 'Int', deletedIds: ['CiRunnerID'] },
  run: async (ctx, { ids }) => {
    const deletedIds = await deleteRunners(ctx, ids);
    return { deletedCount: deletedIds.length, deletedIds };
  },
});

mutationField('runnerCacheClear', {
  description: 'Lets the jobs of a project start with empty caches.',
  input: (t) => ({ projectId: t.field({ type: 'ProjectID', required: true }) }),
  payload: {},
  run: async (ctx, { projectId }) => {
    await updateProject(ctx, await getProject(ctx, { id: projectId }), { clear_runner_caches: true });
    return {};
  },
});

mutationField('runnersRegistrationTokenReset', {
  description:
    'Replaces the registration token of the instance (administrators), of a group or of a project (its owners). While the setting `allow_runner_registration_token` is on.',
  input: (t) => ({
    type: t.field({ type: TypeEnum, required: true }),
    groupId: t.field({ type: 'GroupID', description: 'Required for `GROUP_TYPE`.' }),
    projectId: t.field({ type: 'ProjectID', description: 'Required for `PROJECT_TYPE`.' }),
  }),
  payload: { token: 'String' },
  run: async (ctx, { type, groupId, projectId }) => ({
    token: await resetRegistrationToken(ctx, placeOfType(type, groupId, projectId)),
  }),
});

const placeOfType = (
  type: RunnerType,
  groupId: number | null | undefined,
  projectId: number | null | undefined,
): RegistrationPlace => {
  if (type === 'instance_type') return { kind: 'instance' };
  const [kind, id] = type === 'group_type' ? (['group', groupId] as const) : (['project', projectId] as const);
  if (id == null) throw badRequest(`${kind}Id is missing`);
  return { kind, id: { id } };
};
