import { VISIBILITIES } from '#domains/access/model.ts';
import { getProject, getProjectDetails, type ProjectRow } from '#domains/projects/queries.ts';
import { projectRecord, toProjectRecord } from '#domains/projects/record.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { boolean, exclusive, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { forkProject, linkFork, unlinkFork } from '../forks.ts';

const tag = 'Forks';

const fullRecord = async (ctx: Context, { id }: Pick<ProjectRow, 'id'>) =>
  toProjectRecord(ctx, await getProjectDetails(ctx, { id }, 'owner', 'runners_token'));

export const forkRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/fork',
    tag,
    summary: 'Fork a project',
    description:
      'The project exists at once; a job copies its repository. See `import_status` for the progress. Returns 409 if the name or path is taken in the namespace.',
    input: {
      id: idOrPath(),
      namespace: idOrPath().optional().describe('Replaces `namespace_id` and `namespace_path`.'),
      namespace_id: integer({ min: 1 }).optional(),
      namespace_path: text({ max: 1_024 }).optional(),
      name: text({ max: 255 }).optional(),
      path: text({ max: 255 }).optional(),
      description: text({ max: 2_000 }).nullish(),
      visibility: oneOf(VISIBILITIES).optional(),
      branches: text({ max: 255 }).optional().describe('The only branch to copy. If absent, all branches and tags.'),
      mr_default_target_self: boolean().optional(),
    },
    rules: [exclusive('namespace', 'namespace_id', 'namespace_path')],
    response: projectRecord,
    run: async (ctx, { id, namespace, namespace_id, namespace_path, branches, ...options }) => {
      const target: IdOrPath | undefined =
        namespace ??
        (namespace_id !== undefined ? { id: namespace_id } : namespace_path ? { path: namespace_path } : undefined);
      const source = await getProject(ctx, id);
      const fork = await forkProject(ctx, source, { ...options, namespace: target, branch: branches || undefined });
      // Return the initial status, because the job may already be further.
      return { ...(await fullRecord(ctx, fork)), import_status: fork.import_status };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/fork/:forked_from_id',
    tag,
    summary: 'Make a project a fork of another',
    description: 'Both must exist; nothing is copied. Requires the Owner role in the project.',
    input: { id: idOrPath(), forked_from_id: idOrPath() },
    response: projectRecord,
    run: async (ctx, { id, forked_from_id }) => {
      const project = await getProject(ctx, id);
      return fullRecord(ctx, await linkFork(ctx, project, await getProject(ctx, forked_from_id)));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/fork',
    tag,
    summary: 'End the fork relation of a project',
    description: 'Returns 304 if the project is not a fork.',
    input: { id: idOrPath() },
    response: null,
    run: async (ctx, { id }, http) => {
      const { changed } = await unlinkFork(ctx, await getProject(ctx, id));
      if (!changed) http.setStatus(304);
    },
  }),
] satisfies readonly Route[];
