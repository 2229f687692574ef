import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { idOrPath } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { listLanguages } from '../languages.ts';

const record = z.record(z.string(), z.number()).meta({ id: 'ProjectLanguages' });

export const languageRoutes = [
  route({
    method: 'GET',
    path: '/projects/:id/languages',
    tag: 'Projects',
    summary: 'List the languages a project is written in',
    description:
      'Percent of bytes by language, largest first. Counts the files of the default branch except data, prose, documentation, generated and vendored files. Updated after each push.',
    auth: 'optional',
    input: { id: idOrPath() },
    response: record,
    run: async (ctx, { id }) => {
      const languages = await listLanguages(ctx, await getProject(ctx, id));
      return Object.fromEntries(languages.map(({ name, share }) => [name, Math.round(share * 100) / 100]));
    },
  }),
];
