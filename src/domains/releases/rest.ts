import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, dateTime, hash, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { LINK_TYPES, type LinkAttributes, MAX_LINKS } from './attributes.ts';
import { createRelease, deleteRelease, updateRelease } from './commands.ts';
import { createLink, deleteLink, getLink, getLinkTarget, listLinks, updateLink } from './links.ts';
import { getLatestRelease, getRelease, listReleases, RELEASE_ORDERS, type ReleaseRow } from './queries.ts';
import { linkRecord, releaseRecord, toLink, toReleases } from './record.ts';
import { MAX_MILESTONES } from './write.ts';

const tag = 'Releases';
const linkTag = 'Release links';
const input = { id: idOrPath(), include_html_description: boolean().default(false) };
const one = { id: idOrPath(), tag_name: text({ max: 1_000 }) };
const link = { ...one, link_id: integer({ min: 1 }) };

const attributes = {
  name: text().nullish(),
  description: text().nullish(),
  milestones: list(text({ max: 255 }), { max: MAX_MILESTONES }).optional(),
  milestone_ids: list(integer({ min: 1 }), { max: MAX_MILESTONES }).optional(),
  released_at: dateTime().optional(),
};

const linkAttributes = {
  filepath: text().nullish(),
  direct_asset_path: text().nullish(),
  link_type: oneOf(LINK_TYPES).optional(),
};

/** `filepath` is the older name. */
const pathOf = ({ direct_asset_path, filepath, ...rest }: SentLink): LinkAttributes => ({
  ...rest,
  filepath: direct_asset_path ?? filepath,
});

interface SentLink extends LinkAttributes {
  readonly direct_asset_path?: string | null | undefined;
}

export const routes = [
  listRoute({
    path: '/projects/:id/releases',
    tag,
    summary: 'List the releases of a project',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: {
      ...input,
      order_by: oneOf(RELEASE_ORDERS).default('released_at'),
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
    summary: 'Get the newest published release',
    auth: 'optional',
    input,
    jobTokens: true,
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
    jobTokens: true,
    input: { ...input, tag_name: text({ max: 1_000 }) },
    response: releaseRecord,
    run: async (ctx, { id, tag_name, include_html_description }) => {
      const project = await getProject(ctx, id);
      return toRelease(ctx, project, await getRelease(ctx, project, tag_name), include_html_description);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/releases',
    tag,
    summary: 'Create a release',
    description:
      'If the tag does not exist, it is created from the branch, tag or commit `ref`: annotated with `tag_message`, otherwise lightweight. `milestones` are titles. A future `released_at` makes an upcoming release. Evidence is not collected.',
    maxBodyBytes: TEXT_BODY_BYTES,
    jobTokens: true,
    input: {
      ...one,
      ref: text({ max: 1_000 }).nullish(),
      tag_message: text({ max: 1_000_000 }).nullish(),
      ...attributes,
      assets: hash({
        links: list(hash({ name: text(), url: text(), ...linkAttributes }), { max: MAX_LINKS }).optional(),
      }).optional(),
    },
    response: releaseRecord,
    run: async (ctx, { id, assets, ...given }) => {
      const project = await getProject(ctx, id);
      const links = assets?.links?.map(({ name, url, ...more }) => ({ ...pathOf(more), name, url }));
      return toRelease(ctx, project, await createRelease(ctx, project, { ...given, links }), false);
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/releases/:tag_name',
    tag,
    summary: 'Change a release',
    maxBodyBytes: TEXT_BODY_BYTES,
    jobTokens: true,
    input: { ...one, ...attributes },
    response: releaseRecord,
    run: async (ctx, { id, tag_name, ...changes }) => {
      const project = await getProject(ctx, id);
      return toRelease(ctx, project, await updateRelease(ctx, project, tag_name, changes), false);
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/releases/:tag_name',
    tag,
    summary: 'Delete a release',
    description: 'Its tag stays. Returns the deleted release, which clients read.',
    jobTokens: true,
    refusals: MODIFIED,
    input: one,
    response: releaseRecord,
    run: async (ctx, { id, tag_name }, http) => {
      const project = await getProject(ctx, id);
      const record = await toRelease(ctx, project, await getRelease(ctx, project, tag_name), false);
      await deleteRelease(ctx, project, tag_name, unmodifiedSince(http));
      return record;
    },
  }),
  listRoute({
    path: '/projects/:id/releases/:tag_name/assets/links',
    tag: linkTag,
    summary: 'List the links of a release',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: one,
    item: linkRecord,
    run: async (ctx, { id, tag_name }, page) => {
      const project = await getProject(ctx, id);
      const { items, ...rest } = await readPage(await listLinks(ctx, project, tag_name), page);
      const place = { project_id: project.id, tag: tag_name };
      return { ...rest, items: items.map((link) => toLink(ctx, place, link)) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/releases/:tag_name/assets/links/:link_id',
    tag: linkTag,
    summary: 'Get a link of a release',
    auth: 'optional',
    jobTokens: true,
    input: link,
    response: linkRecord,
    run: async (ctx, { id, tag_name, link_id }) => {
      const project = await getProject(ctx, id);
      return toLink(ctx, { project_id: project.id, tag: tag_name }, await getLink(ctx, project, tag_name, link_id));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/releases/:tag_name/assets/links',
    tag: linkTag,
    summary: 'Add a link to a release',
    jobTokens: true,
    input: { ...one, name: text(), url: text(), ...linkAttributes },
    response: linkRecord,
    run: async (ctx, { id, tag_name, name, url, ...more }) => {
      const project = await getProject(ctx, id);
      return toLink(
        ctx,
        { project_id: project.id, tag: tag_name },
        await createLink(ctx, project, tag_name, { ...pathOf(more), name, url }),
      );
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/releases/:tag_name/assets/links/:link_id',
    tag: linkTag,
    summary: 'Change a link of a release',
    jobTokens: true,
    input: { ...link, name: text().optional(), url: text().optional(), ...linkAttributes },
    response: linkRecord,
    run: async (ctx, { id, tag_name, link_id, ...changes }) => {
      const project = await getProject(ctx, id);
      return toLink(
        ctx,
        { project_id: project.id, tag: tag_name },
        await updateLink(ctx, project, tag_name, link_id, pathOf(changes)),
      );
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/releases/:tag_name/assets/links/:link_id',
    tag: linkTag,
    summary: 'Delete a link of a release',
    description: 'Returns the deleted link, which clients read.',
    jobTokens: true,
    input: link,
    response: linkRecord,
    run: async (ctx, { id, tag_name, link_id }) => {
      const project = await getProject(ctx, id);
      return toLink(ctx, { project_id: project.id, tag: tag_name }, await deleteLink(ctx, project, tag_name, link_id));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/releases/:tag_name/downloads/*direct_asset_path',
    tag: linkTag,
    summary: 'Follow a link of a release by its path',
    description: 'Redirects to the URL of the link.',
    auth: 'optional',
    jobTokens: true,
    input: { ...one, direct_asset_path: text({ max: 255 }) },
    status: 302,
    response: null,
    run: async (ctx, { id, tag_name, direct_asset_path }, http) => {
      const project = await getProject(ctx, id);
      http.setHeader('Location', await getLinkTarget(ctx, project, tag_name, direct_asset_path));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/releases/permalink/latest/downloads/*direct_asset_path',
    tag: linkTag,
    summary: 'Follow a link of the newest published release by its path',
    description: 'Redirects to the URL of the link. This address stays the same from release to release.',
    auth: 'optional',
    jobTokens: true,
    input: { id: idOrPath(), direct_asset_path: text({ max: 255 }) },
    status: 302,
    response: null,
    run: async (ctx, { id, direct_asset_path }, http) => {
      const project = await getProject(ctx, id);
      const release = await getLatestRelease(ctx, project);
      http.setHeader('Location', await getLinkTarget(ctx, project, release.tag, direct_asset_path));
    },
  }),
] satisfies readonly Route[];

const toRelease = async (ctx: Context, project: ProjectRow, row: ReleaseRow, includeHtml: boolean) => {
  const [record] = await toReleases(ctx, project, [row], includeHtml);
  if (!record) throw notFound();
  return record;
};
