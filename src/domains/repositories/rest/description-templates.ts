import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { slicePage } from '#platform/paging.ts';
import { idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { getDescriptionTemplate, listDescriptionTemplates, TEMPLATE_KINDS } from '../description-templates.ts';

const tag = 'Repositories';
const ofProject = { id: idOrPath(), type: oneOf(TEMPLATE_KINDS) };

export const descriptionTemplateRoutes = [
  listRoute({
    path: '/projects/:id/templates/:type',
    tag,
    summary: 'List the templates for descriptions',
    description:
      'The Markdown files in `.gitlab/issue_templates` or `.gitlab/merge_request_templates` of the default branch.',
    auth: 'optional',
    paging: 'offset',
    input: ofProject,
    item: z.object({ key: z.string(), name: z.string() }),
    run: async (ctx, { id, type }, wanted) => {
      const project = await getProject(ctx, id);
      const page = slicePage(await listDescriptionTemplates(ctx, project, type), wanted);
      return { ...page, items: page.items.map(({ name }) => ({ key: name, name })) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/templates/:type/:name',
    tag,
    summary: 'Get a template for descriptions',
    auth: 'optional',
    input: { ...ofProject, name: text({ max: 255 }) },
    response: z.object({ name: z.string(), content: z.string() }),
    run: async (ctx, { id, type, name }) => getDescriptionTemplate(ctx, await getProject(ctx, id), type, name),
  }),
] satisfies readonly Route[];
