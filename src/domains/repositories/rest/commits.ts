import { getProject } from '#domains/projects/queries.ts';
import { boolean, dateTime, idOrPath, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { getCommit, listCommits } from '../queries/commits.ts';
import { commitRecord, toCommit } from '../record.ts';

const tag = 'Commits';

const id = idOrPath();

export const commitRoutes = [
  listRoute({
    path: '/projects/:id/repository/commits',
    tag,
    summary: 'List commits',
    description: 'Newest first; they are not counted.',
    auth: 'optional',
    input: {
      id,
      ref_name: text({ max: 1_000 }).optional(),
      since: dateTime().optional(),
      until: dateTime().optional(),
      path: text({ max: 4_096 }).optional(),
      author: text({ max: 255 }).optional(),
      first_parent: boolean().optional(),
    },
    item: commitRecord,
    paging: 'offset',
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const { limit } = wanted;
      const offset = wanted.kind === 'offset' ? wanted.offset : 0;
      const commits = await listCommits(ctx, project, filter, { limit: limit + 1, offset });
      const items = commits.slice(0, limit).map((each) => toCommit(ctx, project, each));
      return { items, total: null, hasNext: commits.length > limit };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha',
    tag,
    summary: 'Show a commit, by its id or a branch or tag',
    auth: 'optional',
    input: { id, sha: text({ max: 1_000 }) },
    response: commitRecord,
    run: async (ctx, { id, sha }) => {
      const project = await getProject(ctx, id);
      return toCommit(ctx, project, await getCommit(ctx, project, sha));
    },
  }),
];
