import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { tagRecord, toTag } from '../record.ts';
import { completeTags, createTag, deleteTag, getTag, listTags, TAG_ORDERS } from '../tags.ts';

const tag = 'Tags';

const id = idOrPath();
const tag_name = text({ max: 1_000 });

export const tagRoutes = [
  listRoute({
    path: '/projects/:id/repository/tags',
    tag,
    summary: 'List tags',
    description:
      '`search` matches part of the name, case-insensitive; `^term` matches at the start and `term$` at the end. `pagination=keyset` continues after `page_token`.',
    auth: 'optional',
    jobTokens: true,
    input: {
      id,
      search: text({ max: 1_000 }).optional(),
      order_by: oneOf(TAG_ORDERS).default('updated'),
      sort: oneOf(['asc', 'desc']).default('desc'),
    },
    item: tagRecord,
    paging: { keyset: 'name' },
    run: async (ctx, { id, ...filter }, wanted) => {
      const project = await getProject(ctx, id);
      const page_token = wanted.kind === 'keyset' ? (wanted.cursor?.name?.toString() ?? undefined) : undefined;
      const page = await readPage(await listTags(ctx, project, { ...filter, page_token }), wanted);
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
    jobTokens: true,
    input: { id, tag_name },
    response: tagRecord,
    run: async (ctx, { id, tag_name }) => {
      const project = await getProject(ctx, id);
      return toTag(ctx, project, await getTag(ctx, project, tag_name));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/tags/:tag_name/signature',
    tag,
    summary: 'Show the signature of a tag',
    description: 'Always 404, because signatures of tags are not verified.',
    auth: 'optional',
    input: { id, tag_name },
    response: z.object({ signature_type: z.string() }),
    run: async (ctx, { id, tag_name }) => {
      await getTag(ctx, await getProject(ctx, id), tag_name);
      throw notFound('Signature');
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/tags',
    tag,
    summary: 'Create a tag',
    description: 'With a `message`, the tag is annotated and the caller is its tagger.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { id, tag_name, ref: text({ max: 1_000 }), message: text({ max: 1_000_000 }).optional() },
    response: tagRecord,
    run: async (ctx, { id, tag_name, ...rest }) => {
      const project = await getProject(ctx, id);
      return toTag(ctx, project, await createTag(ctx, project, { tag: tag_name, ...rest }));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/repository/tags/:tag_name',
    tag,
    summary: 'Delete a tag',
    input: { id, tag_name },
    response: null,
    run: async (ctx, { id, tag_name }) => {
      await deleteTag(ctx, await getProject(ctx, id), tag_name);
    },
  }),
];
