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
  toProjectRecord(ctx, await getProjectDetails(ctx, { id }, ['owner', 'runners_token']));

export const forkRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/fork',
    tag,
    summary: 'Fork a project',
    description:
      'The project is there at once, its repository follows: see `import_status`. A name or path that is taken in the namespace is answered 409.',
    input: {
      id: idOrPath(),
      namespace: idOrPath().optional().describe('Instead of `namespace_id` and `namespace_path`.'),
      namespace_id: integer({ min: 1 }).optional(),
      namespace_path: text({ max: 1_024 }).optional(),
      name: text({ max: 255 }).optional(),
      path: text({ max: 255 }).optional(),
      description: text({ max: 2_000 }).nullish(),
      visibility: oneOf(VISIBILITIES).optional(),
      branches: text({ max: 255 }).optional().describe('The one branch to fork; all of them, and tags, when absent.'),
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
      // As it was made: the job may be quicker than this answer.
      return { ...(await fullRecord(ctx, fork)), import_status: fork.import_status };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/fork/:forked_from_id',
    tag,
    summary: 'Make a project a fork of another',
    description: 'Both are there already; nothing is copied. Owners of the project.',
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
    summary: 'Make a fork a project of its own',
    description: '304 when it is no fork.',
    input: { id: idOrPath() },
    response: null,
    run: async (ctx, { id }, http) => {
      const { changed } = await unlinkFork(ctx, await getProject(ctx, id));
      if (!changed) http.setStatus(304);
    },
  }),
] satisfies readonly Route[];
