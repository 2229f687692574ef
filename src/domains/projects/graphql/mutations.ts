import { VisibilityLevelsEnum } from '#domains/access/graphql.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createProject, setArchived, updateProject } from '../commands.ts';
import { deleteProject, restoreProject } from '../deletion.ts';
import { ProjectRef } from '../graphql.ts';
import { getProject } from '../queries.ts';
import { setStar } from '../stars.ts';
import { transferProject } from '../transfer.ts';
import { readSettings, settingFields } from './setting-inputs.ts';

mutationField('projectCreate', {
  description: 'Creates a project. One of `name` and `path` is needed.',
  input: (t) => ({
    name: t.string(),
    path: t.string(),
    namespaceId: t.field({ type: 'NamespaceID', description: "Defaults to the caller's own namespace." }),
    namespacePath: t.id({ description: 'Alternative to `namespaceId`.' }),
    visibility: t.field({ type: VisibilityLevelsEnum }),
    defaultBranch: t.string(),
    initializeWithReadme: t.boolean(),
    importUrl: t.string({
      description: 'The http or https address of a git repository that a job clones. May include credentials.',
    }),
    ...settingFields(t),
  }),
  payload: { project: ProjectRef },
  run: async (ctx, input) => ({
    project: await createProject(ctx, {
      ...readSettings(input),
      name: input.name ?? undefined,
      path: input.path ?? undefined,
      namespace: namespaceOf(input.namespaceId, input.namespacePath),
      visibility: input.visibility ?? undefined,
      default_branch: input.defaultBranch ?? undefined,
      initialize_with_readme: input.initializeWithReadme ?? undefined,
      import_url: input.importUrl ?? undefined,
    }),
  }),
});

mutationField('projectUpdate', {
  description: 'Changes a project.',
  input: (t) => ({
    fullPath: t.id({ required: true }),
    name: t.string(),
    path: t.string(),
    visibility: t.field({ type: VisibilityLevelsEnum }),
    defaultBranch: t.string(),
    removeAvatar: t.boolean({ description: 'Removes the avatar. Set one over REST.' }),
    ...settingFields(t),
  }),
  payload: { project: ProjectRef },
  run: async (ctx, input) => ({
    project: await updateProject(ctx, await getProject(ctx, { path: input.fullPath }), {
      ...readSettings(input),
      name: input.name ?? undefined,
      path: input.path ?? undefined,
      visibility: input.visibility ?? undefined,
      default_branch: input.defaultBranch ?? undefined,
      avatar: input.removeAvatar ? null : undefined,
    }),
  }),
});

mutationField('projectDelete', {
  description:
    'Deletes a project with everything in it. If `deletion_adjourned_period` gives a delay, it is only marked at first. `permanentlyRemove` removes a marked project at once.',
  input: (t) => ({ fullPath: t.id({ required: true }), permanentlyRemove: t.boolean() }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath, permanentlyRemove }) => ({
    project: await deleteProject(ctx, await getProject(ctx, { path: fullPath }), {
      permanentlyRemove: permanentlyRemove ?? undefined,
      fullPath: permanentlyRemove ? fullPath : undefined,
    }),
  }),
});

mutationField('projectRestore', {
  description: 'Restores a project that is marked for deletion.',
  input: (t) => ({ fullPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath }) => ({
    project: await restoreProject(ctx, await getProject(ctx, { path: fullPath })),
  }),
});

for (const [name, archived] of [
  ['projectArchive', true],
  ['projectUnarchive', false],
] as const) {
  mutationField(name, {
    description: archived ? 'Makes a project read-only.' : 'Unarchives a project.',
    input: (t) => ({ fullPath: t.id({ required: true }) }),
    payload: { project: ProjectRef },
    run: async (ctx, { fullPath }) => ({
      project: await setArchived(ctx, await getProject(ctx, { path: fullPath }), archived),
    }),
  });
}

mutationField('starProject', {
  description: 'Stars or unstars a project.',
  input: (t) => ({
    projectId: t.field({ type: 'ProjectID', required: true }),
    starred: t.boolean({ required: true }),
  }),
  payload: { project: ProjectRef, count: 'String' },
  run: async (ctx, { projectId, starred }) => {
    const { project } = await setStar(ctx, await getProject(ctx, { id: projectId }), starred);
    return { project, count: String(project.star_count) };
  },
});

const namespaceOf = (id: number | null | undefined, path: string | null | undefined) =>
  id != null ? { id } : path != null ? { path } : undefined;

mutationField('projectTransfer', {
  description: 'Moves a project into another namespace. Its old path redirects to it.',
  input: (t) => ({ fullPath: t.id({ required: true }), namespacePath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath, namespacePath }) => ({
    project: await transferProject(ctx, await getProject(ctx, { path: fullPath }), { path: namespacePath }),
  }),
});
