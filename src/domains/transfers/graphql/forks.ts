import { VisibilityLevelsEnum } from '#domains/access/graphql.ts';
import { loadProject, ProjectConnection, ProjectRef, projectField, projectParts } from '#domains/projects/graphql.ts';
import { POLICY_COLUMNS } from '#domains/projects/policy.ts';
import { getProject, listProjectsBelow } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { selectedNodes } from '#graphql/lookahead.ts';
import { mutationField } from '#graphql/mutation.ts';
import {
  type ForkDetails,
  findForkDetails,
  forkSyncKey,
  forkSyncsUnderWay,
  hasConflicts,
  scheduleForkSync,
} from '../fork-sync.ts';
import { forkProject, linkFork, unlinkFork } from '../forks.ts';

const load = async (ctx: Parameters<typeof loadProject>[0], id: number | null) =>
  id === null ? null : loadProject(ctx, id);

projectField('isForked', ['id', 'forked_from_id'], (t) =>
  t.boolean({
    nullable: false,
    description: 'Whether the project is a fork of a project that the caller may see.',
    resolve: async ({ forked_from_id }, _args, ctx) => (await load(ctx, forked_from_id)) !== null,
  }),
);

projectField('forkedFrom', ['id', 'forked_from_id'], (t) =>
  t.field({
    type: ProjectRef,
    description: 'The source of the fork. Null if the project is not a fork or the caller may not see the source.',
    resolve: ({ forked_from_id }, _args, ctx) => load(ctx, forked_from_id),
  }),
);

const forksOf = batchedConnection(
  (ctx, { search }: ConnectionArguments & { search?: string | null | undefined }, info) =>
    listProjectsBelow(
      ctx,
      { search, order_by: 'id', sort: 'desc' },
      projectParts(selectedNodes(info)),
      'forked_from_id',
    ),
);

projectField('forks', ['id'], (t) =>
  t.connection(
    {
      type: ProjectRef,
      nullable: false,
      description: 'The direct forks that the caller may see, newest first.',
      args: { search: t.arg.string() },
      resolve: ({ id }, args, ctx, info) => forksOf(id, args, ctx, info),
    },
    ProjectConnection,
  ),
);

const loadUnderWay = loader(forkSyncsUnderWay);

const ForkDetailsRef = builder.objectRef<ForkDetails>('ForkDetails').implement({
  description: 'Compares a branch of a fork with the default branch of its source, in commits.',
  fields: (t) => ({
    ahead: t.exposeInt('ahead', { nullable: false }),
    behind: t.exposeInt('behind', { nullable: false }),
    hasConflicts: t.boolean({
      nullable: true,
      extensions: { cost: 20 },
      description: 'Whether the branches cannot be merged automatically, because of conflicts or unrelated histories.',
      resolve: (details, _args, ctx) => hasConflicts(ctx, details),
    }),
    isSyncing: t.boolean({
      nullable: true,
      description: 'Whether a `projectSyncFork` of the branch is waiting or running.',
      resolve: async (details, _args, ctx) => (await loadUnderWay(ctx, forkSyncKey(details))) ?? false,
    }),
  }),
});

projectField(
  'forkDetails',
  ['id', 'disk_path', 'default_branch', 'forked_from_id', ...POLICY_COLUMNS, 'access_level'],
  (t) =>
    t.field({
      type: ForkDetailsRef,
      extensions: { cost: 20 },
      description: 'Only for callers who may read the code of both projects.',
      args: { ref: t.arg.string({ description: 'A branch. Defaults to the default branch.' }) },
      resolve: async (project, { ref }, ctx) =>
        findForkDetails(ctx, project, await load(ctx, project.forked_from_id), ref ?? undefined),
    }),
);

mutationField('projectFork', {
  description:
    'Forks a project. The project exists at once; a job copies its repository. See `import` for the progress.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    namespacePath: t.id({ description: "Defaults to the caller's own namespace." }),
    name: t.string(),
    path: t.string(),
    description: t.string(),
    visibility: t.field({ type: VisibilityLevelsEnum }),
    branch: t.string({ description: 'The only branch to copy. If absent, all branches and tags.' }),
    mrDefaultTargetSelf: t.boolean(),
  }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath, namespacePath, mrDefaultTargetSelf, name, path, branch, visibility, description }) => ({
    project: await forkProject(ctx, await getProject(ctx, { path: String(fullPath) }), {
      namespace: namespacePath == null ? undefined : { path: String(namespacePath) },
      name: name ?? undefined,
      path: path ?? undefined,
      description: description ?? undefined,
      visibility: visibility ?? undefined,
      branch: branch ?? undefined,
      mr_default_target_self: mrDefaultTargetSelf ?? undefined,
    }),
  }),
});

mutationField('projectForkLink', {
  description: 'Makes an existing project a fork of another. Copies nothing.',
  input: (t) => ({ fullPath: t.id({ required: true }), forkedFromPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath, forkedFromPath }) => {
    const project = await getProject(ctx, { path: String(fullPath) });
    return { project: await linkFork(ctx, project, await getProject(ctx, { path: String(forkedFromPath) })) };
  },
});

mutationField('projectForkUnlink', {
  description: 'Ends the fork relation of a project. Its own forks stay related to it.',
  input: (t) => ({ fullPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath }) => {
    const { project } = await unlinkFork(ctx, await getProject(ctx, { path: String(fullPath) }));
    return { project };
  },
});

mutationField('projectSyncFork', {
  description:
    'Updates a branch of a fork from the default branch of its source, in the background, by a fast-forward or a merge.',
  input: (t) => ({ projectPath: t.id({ required: true }), targetBranch: t.string({ required: true }) }),
  payload: { details: ForkDetailsRef },
  run: async (ctx, { projectPath, targetBranch }) => {
    const project = await getProject(ctx, { path: String(projectPath) });
    return { details: await scheduleForkSync(ctx, project, targetBranch) };
  },
});
