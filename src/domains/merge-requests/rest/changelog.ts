import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { badRequest } from '#platform/errors.ts';
import { dateTime, idOrPath, text } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { addToChangelog, changelogSection } from '../changelog/changelog.ts';
import { VERSION } from '../changelog/text.ts';

const tag = 'Repositories';
const path = '/projects/:id/repository/changelog';
const description =
  'Uses the commits with the trailer `Changelog: <category>` between `from` (default: the tag of the last release before `version`) and `to`. Configuration files are not supported: `config_file` is refused.';

const ref = text({ max: 1_000 });
const input = {
  id: idOrPath(),
  version: text({ max: 255, pattern: VERSION }),
  from: ref.optional(),
  to: ref.optional(),
  date: dateTime().optional(),
  trailer: text({ max: 255 }).default('Changelog'),
  config_file: text().optional(),
  config_file_ref: text().optional(),
};
const response = z.object({ notes: z.string() }).meta({ id: 'Changelog' });

interface Configured {
  readonly config_file?: string | undefined;
  readonly config_file_ref?: string | undefined;
}

const refuseConfiguration = ({ config_file, config_file_ref }: Configured): void => {
  if (config_file || config_file_ref) {
    throw badRequest('configuration files are not supported: leave out config_file and config_file_ref');
  }
};

export const changelogRoutes = [
  route({
    method: 'GET',
    path,
    tag,
    summary: 'Generate the changelog section of a version',
    description,
    auth: 'optional',
    input,
    response,
    run: async (ctx, { id, config_file, config_file_ref, ...range }) => {
      refuseConfiguration({ config_file, config_file_ref });
      return { notes: await changelogSection(ctx, await getProject(ctx, id), range) };
    },
  }),
  route({
    method: 'POST',
    path,
    tag,
    summary: 'Add the changelog section of a version to a file',
    description: `${description} The sections in \`file\` are ordered by version.`,
    status: 200,
    input: {
      ...input,
      branch: ref.optional(),
      file: text({ max: 4_096 }).default('CHANGELOG.md'),
      message: text().optional(),
    },
    response,
    run: async (ctx, { id, config_file, config_file_ref, branch, file, message, ...range }) => {
      refuseConfiguration({ config_file, config_file_ref });
      return { notes: await addToChangelog(ctx, await getProject(ctx, id), range, { branch, file, message }) };
    },
  }),
];
