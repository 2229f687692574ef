import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { completeTags, getTag, listTags } from '../queries/tags.ts';
import { tagRecord, toTag } from '../record.ts';

const tag = 'Tags';

const id = idOrPath();

export const tagRoutes = [
  listRoute({
    path: '/projects/:id/repository/tags',
    tag,
    summary: 'List tags',
    auth: 'optional',
    input: {
      id,
      search: text({ max: 1_000 }).optional(),
      order_by: oneOf(['name', 'updated']).default('updated'),
      sort: oneOf(['asc', 'desc']).default('desc'),
    },
    item: tagRecord,
    paging: 'offset',
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const page = await readPage(await listTags(ctx, project, filter), wanted);
      const tags = await completeTags(ctx, project, page.items);
      return { ...page, items: tags.map((each) => toTag(ctx, project, each)) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/tags/:tag_name',
    tag,
    summary: 'Show a tag',
    auth: 'optional',
    input: { id, tag_name: text({ max: 1_000 }) },
    response: tagRecord,
    run: async (ctx, { id, tag_name }) => {
      const project = await getProject(ctx, id);
      return toTag(ctx, project, await getTag(ctx, project, tag_name));
    },
  }),
];
