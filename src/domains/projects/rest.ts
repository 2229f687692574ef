import { z } from 'zod';
import type { VISIBILITIES } from '#domains/access/model.ts';
import {
  customAttributeRoutes,
  withCustomAttributes,
  withCustomAttributesFlag,
} from '#domains/custom-attributes/rest.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { boolean, idOrPath, integer, text } from '#rest/params.ts';
import { type Exchange, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { readAttributes } from './attributes.ts';
import { createProject, namespaceOfUser, setArchived, updateProject } from './commands.ts';
import { deleteProject, restoreProject } from './deletion.ts';
import { type DetailPart, getProject, getProjectDetails, type ProjectRow } from './queries.ts';
import { anyProjectRecord, projectRecord, toProjectRecord, toSimpleProject, withLicense } from './record.ts';
import { avatarRoute } from './rest/avatar.ts';
import { groupRoutes } from './rest/group.ts';
import { aroundRoutes } from './rest/groups.ts';
import {
  type BeyondSettings,
  beyondSettings,
  creationInputs,
  nameOrPath,
  projectInputs,
  someChange,
} from './rest/inputs.ts';
import { listRoutes } from './rest/lists.ts';
import { isAnonymous } from './rest/page.ts';
import { starRoutes } from './rest/stars.ts';
import { setStar } from './stars.ts';
import { transferProject } from './transfer.ts';

export { followingMoves } from './rest/moves.ts';

const tag = 'Projects';

const accepted = z.object({ message: z.literal('202 Accepted') });

export const routes = [
  ...listRoutes,
  ...groupRoutes,
  ...starRoutes,
  avatarRoute,
  ...aroundRoutes,
  route({
    method: 'GET',
    path: '/projects/:id',
    tag,
    summary: 'Get a project',
    auth: 'optional',
    input: {
      id: idOrPath(),
      statistics: boolean().default(false).describe('Adds sizes and counts if the caller is at least Reporter.'),
      license: boolean().default(false).describe('Include the licence found in the default branch.'),
      simple: boolean().default(false),
      with_custom_attributes: withCustomAttributesFlag,
    },
    response: anyProjectRecord,
    run: async (ctx, { id, statistics, license, simple, with_custom_attributes }) => {
      if (simple || isAnonymous(ctx)) {
        const project = await getProject(ctx, id);
        return withLicense(ctx, project, toSimpleProject(ctx, project), license);
      }
      const extra: DetailPart[] = ['owner', 'runners_token'];
      if (statistics) extra.push('statistics');
      const project = await getProjectDetails(ctx, id, ...extra);
      const full = await withLicense(ctx, project, await toProjectRecord(ctx, project), license);
      const [record = full] = await withCustomAttributes(ctx, 'projects', [full], with_custom_attributes);
      return record;
    },
  }),

  route({
    method: 'POST',
    path: '/projects',
    tag,
    summary: 'Create a project',
    input: { ...creationInputs, namespace_id: idOrPath().optional() },
    rules: [nameOrPath],
    response: projectRecord,
    run: async (ctx, { namespace_id, ...input }) => createdRecord(ctx, input, namespace_id),
  }),

  route({
    method: 'POST',
    path: '/projects/user/:user_id',
    tag,
    summary: 'Create a project for a user',
    admin: true,
    input: { ...creationInputs, user_id: integer({ min: 1 }) },
    rules: [nameOrPath],
    response: projectRecord,
    run: async (ctx, { user_id, ...input }) => createdRecord(ctx, input, await namespaceOfUser(ctx, user_id)),
  }),

  route({
    method: 'PUT',
    path: '/projects/:id',
    tag,
    summary: 'Change a project',
    input: { ...projectInputs, id: idOrPath() },
    rules: [someChange],
    response: projectRecord,
    run: async (ctx, { id, name, path, visibility, default_branch, ...settings }) => {
      const project = await getProject(ctx, id);
      const named = { name, path, visibility, default_branch };
      await updateProject(ctx, project, { ...readAttributes(settings), ...beyondSettings(settings), ...named });
      return fullRecord(ctx, project);
    },
  }),

  route({
    method: 'DELETE',
    path: '/projects/:id',
    tag,
    summary: 'Delete a project',
    status: 202,
    description:
      'If `deletion_adjourned_period` gives a delay, the project is only marked at first. With `permanently_remove` and its path in `full_path`, a marked project is removed at once.',
    refusals: MODIFIED,
    input: {
      id: idOrPath(),
      permanently_remove: boolean().default(false),
      // Clients with static types send an empty path if none is set.
      full_path: text({ emptyIsNull: true }).optional(),
    },
    response: accepted,
    run: async (ctx, { id, permanently_remove, full_path }, http) => {
      await deleteProject(ctx, await getProject(ctx, id), {
        permanentlyRemove: permanently_remove,
        fullPath: full_path,
        unchangedSince: unmodifiedSince(http),
      });
      return { message: '202 Accepted' as const };
    },
  }),

  route({
    method: 'POST',
    path: '/projects/:id/restore',
    tag,
    summary: 'Restore a project that is marked for deletion',
    input: { id: idOrPath() },
    response: projectRecord,
    run: async (ctx, { id }) => fullRecord(ctx, await restoreProject(ctx, await getProject(ctx, id))),
  }),
  ...archiving(),
  route({
    method: 'PUT',
    path: '/projects/:id/transfer',
    tag,
    summary: 'Move a project into another namespace',
    input: { id: idOrPath(), namespace: idOrPath() },
    response: projectRecord,
    run: async (ctx, { id, namespace }) =>
      fullRecord(ctx, await transferProject(ctx, await getProject(ctx, id), namespace)),
  }),
  ...customAttributeRoutes('projects', idOrPath(), getProject),

  route({
    method: 'POST',
    path: '/projects/:id/star',
    tag,
    summary: 'Star a project',
    description: 'Answers 304 if the caller has already starred it.',
    input: { id: idOrPath() },
    response: projectRecord,
    run: (ctx, { id }, http) => starRecord(ctx, id, true, http),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/unstar',
    tag,
    summary: 'Unstar a project',
    description: 'Answers 304 if the caller has not starred it.',
    input: { id: idOrPath() },
    response: projectRecord,
    run: (ctx, { id }, http) => starRecord(ctx, id, false, http),
  }),
] satisfies readonly Route[];

function archiving() {
  return (['archive', 'unarchive'] as const).map((verb) =>
    route({
      method: 'POST',
      path: `/projects/:id/${verb}`,
      tag,
      summary: verb === 'archive' ? 'Archive a project' : 'Unarchive a project',
      input: { id: idOrPath() },
      response: projectRecord,
      run: async (ctx, { id }) => {
        const project = await setArchived(ctx, await getProject(ctx, id), verb === 'archive');
        return fullRecord(ctx, project);
      },
    }),
  );
}

interface CreationInput extends BeyondSettings {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly visibility?: (typeof VISIBILITIES)[number] | undefined;
  readonly default_branch?: string | undefined;
  readonly initialize_with_readme?: boolean | undefined;
  readonly import_url?: string | undefined;
}

const createdRecord = async (ctx: Context, input: CreationInput, namespace: IdOrPath | undefined) => {
  const { name, path, visibility, default_branch, initialize_with_readme, import_url, ...settings } = input;
  const project = await createProject(ctx, {
    ...readAttributes(settings),
    ...beyondSettings(settings),
    name,
    path,
    visibility,
    default_branch,
    initialize_with_readme,
    import_url,
    namespace,
  });
  // The state at creation: the job that fills the repository may finish before this response.
  return { ...(await fullRecord(ctx, project)), import_status: project.import_status };
};

const fullRecord = async (ctx: Context, { id }: Pick<ProjectRow, 'id'>) =>
  toProjectRecord(ctx, await getProjectDetails(ctx, { id }, 'owner', 'runners_token'));

const starRecord = async (ctx: Context, id: IdOrPath, starred: boolean, http: Exchange) => {
  const { project, changed } = await setStar(ctx, await getProject(ctx, id), starred);
  if (!changed) http.setStatus(304);
  return fullRecord(ctx, project);
};
