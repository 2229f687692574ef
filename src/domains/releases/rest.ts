import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { getLatestRelease, getRelease, listReleases, type ReleaseRow } from './queries.ts';
import { releaseRecord, toReleases } from './record.ts';

const tag = 'Releases';
const input = { id: idOrPath(), include_html_description: boolean().default(false) };

export const routes = [
  listRoute({
    path: '/projects/:id/releases',
    tag,
    summary: 'List the releases of a project',
    auth: 'optional',
    paging: 'offset',
    input: {
      ...input,
      order_by: oneOf(['released_at', 'created_at']).default('released_at'),
      sort: oneOf(['asc', 'desc']).default('desc'),
    },
    item: releaseRecord,
    run: async (ctx, { id, include_html_description, ...filter }, page) => {
      const project = await getProject(ctx, id);
      const found = await readPage(listReleases(ctx, project, filter), page);
      return { ...found, items: await toReleases(ctx, project, found.items, include_html_description) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/releases/permalink/latest',
    tag,
    summary: 'Get the newest release that is out',
    auth: 'optional',
    input,
    response: releaseRecord,
    run: async (ctx, { id, include_html_description }) => {
      const project = await getProject(ctx, id);
      return toRelease(ctx, project, await getLatestRelease(ctx, project), include_html_description);
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/releases/:tag_name',
    tag,
    summary: 'Get a release by its tag',
    auth: 'optional',
    input: { ...input, tag_name: text({ max: 1_000 }) },
    response: releaseRecord,
    run: async (ctx, { id, tag_name, include_html_description }) => {
      const project = await getProject(ctx, id);
      return toRelease(ctx, project, await getRelease(ctx, project, tag_name), include_html_description);
    },
  }),
] satisfies readonly Route[];

const toRelease = async (ctx: Context, project: ProjectRow, row: ReleaseRow, includeHtml: boolean) => {
  const [record] = await toReleases(ctx, project, [row], includeHtml);
  if (!record) throw notFound();
  return record;
};
