import { z } from 'zod';
import { renderText } from '#domains/markdown/html.ts';
import { getProject } from '#domains/projects/queries.ts';
import { boolean, idOrPath, text } from '#rest/params.ts';
import { type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';

export const routes = [
  route({
    method: 'POST',
    path: '/markdown',
    tag: 'Markdown',
    summary: 'Render a text as HTML',
    description:
      'The HTML is sanitised. With `gfm`, references such as `#1` and `@user` become links, if the caller can see what they name.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      text: text({ max: 1_048_576 }),
      gfm: boolean().default(false).describe('Whether references become links.'),
      project: idOrPath()
        .optional()
        .describe('The project that short references and relative links start from, by path or id.'),
    },
    response: z.object({ html: z.string() }).meta({ id: 'RenderedMarkdown' }),
    run: async (ctx, { text, gfm, project }) => {
      const home = project === undefined ? null : { kind: 'project' as const, id: (await getProject(ctx, project)).id };
      return { html: await renderText(ctx, { text, home }, { references: gfm }) };
    },
  }),
] satisfies readonly Route[];
