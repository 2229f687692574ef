import { z } from 'zod';
import type { ContainerKind } from '#domains/planning/container.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { fileUpload, idOrPath, integer, text } from '#rest/params.ts';
import { type Download, listRoute, type Route, route, streamRoute } from '#rest/route.ts';
import { createUpload, deleteUpload, deleteUploadAt, maxAttachmentBytes } from './commands.ts';
import { altText, contentTypeOf, markdownOf, pictureTypeOf, uploadPath, uploadUrl } from './model.ts';
import { getUpload, listUploads, readUploadAt, readUploadBelow, type UploadRow } from './queries.ts';

const uploadRecord = z
  .object({
    id: z.int(),
    size: z.int(),
    filename: z.string(),
    created_at: z.string(),
    uploaded_by: z.object({ id: z.int(), name: z.string(), username: z.string() }).nullable(),
  })
  .meta({ id: 'Upload' });

const createdRecord = z
  .object({ id: z.int(), alt: z.string(), url: z.string(), full_path: z.string(), markdown: z.string() })
  .meta({ id: 'CreatedUpload' });

const toRecords = async (ctx: Context, rows: readonly UploadRow[]): Promise<z.output<typeof uploadRecord>[]> => {
  const users = await userSummariesByIds(
    ctx,
    rows.map((row) => row.uploaded_by_id),
  );
  return rows.map(({ id, size, filename, created_at, uploaded_by_id }) => {
    const user = users.get(uploaded_by_id ?? 0);
    return {
      id,
      size,
      filename,
      created_at: isoTime(created_at),
      uploaded_by: user ? { id: user.id, name: user.name, username: user.username } : null,
    };
  });
};

/** Images are displayed inline; everything else is downloaded. Nothing is executed. */
const download = async (ctx: Context, row: UploadRow): Promise<Download> => ({
  stream: async () => (await ctx.services.storage.read(row.storage_key)).stream,
  part: async (part) => (await ctx.services.storage.read(row.storage_key, part)).stream,
  size: row.size,
  contentType: contentTypeOf(row.filename),
  filename: row.filename,
  disposition: pictureTypeOf(row.filename) === null ? 'attachment' : 'inline',
  headers: { 'Content-Security-Policy': "default-src 'none'; sandbox" },
});

const address = { secret: text({ max: 255 }), filename: text({ max: 1_000 }) };

const routesOf = (kind: ContainerKind): Route[] => {
  const tag = kind === 'group' ? 'Group uploads' : 'Project uploads';
  const below = <const P extends string>(path: P) =>
    `/${kind === 'group' ? 'groups' : 'projects'}/:id/uploads${path}` as const;
  return [
    route({
      method: 'POST',
      path: below(''),
      tag,
      summary: `Attach a file to a ${kind}`,
      description: 'The response includes the Markdown to embed it or link to it. Requires a Guest.',
      input: { id: idOrPath(), file: fileUpload({ maxBytes: maxAttachmentBytes }) },
      response: createdRecord,
      run: async (ctx, { id, file }) => {
        const { container, row } = await createUpload(ctx, { kind, id }, file);
        return {
          id: row.id,
          alt: altText(row.filename),
          url: uploadUrl(row),
          full_path: uploadPath(container, row),
          markdown: markdownOf(row),
        };
      },
    }),
    listRoute({
      path: below(''),
      tag,
      summary: `List the uploads of a ${kind}`,
      input: { id: idOrPath() },
      paging: 'offset',
      item: uploadRecord,
      run: async (ctx, { id }, page) => {
        const { items, ...rest } = await readPage(await listUploads(ctx, { kind, id }), page);
        return { ...rest, items: await toRecords(ctx, items) };
      },
    }),
    streamRoute({
      method: 'GET',
      path: below('/:upload_id'),
      tag,
      summary: `Download an upload of a ${kind}`,
      input: { id: idOrPath(), upload_id: integer({ min: 1 }) },
      run: async (ctx, { id, upload_id }) => download(ctx, await getUpload(ctx, { kind, id }, upload_id)),
    }),
    streamRoute({
      method: 'GET',
      path: below('/:secret/:filename'),
      tag,
      summary: `Download an upload of a ${kind} by its URL`,
      auth: 'optional',
      input: { id: idOrPath(), ...address },
      run: async (ctx, { id, ...at }) => download(ctx, await readUploadAt(ctx, { kind, id }, at)),
    }),
    streamRoute({
      method: 'GET',
      path: `/-/${kind}/:id/uploads/:secret/:filename`,
      root: true,
      tag,
      summary: `Get an upload of a ${kind}, for pages`,
      auth: 'optional',
      input: { id: integer({ min: 1 }), ...address },
      run: async (ctx, { id, ...at }) => download(ctx, await readUploadAt(ctx, { kind, id: { id } }, at)),
    }),
    route({
      method: 'DELETE',
      path: below('/:upload_id'),
      tag,
      summary: `Delete an upload of a ${kind}`,
      input: { id: idOrPath(), upload_id: integer({ min: 1 }) },
      response: null,
      run: (ctx, { id, upload_id }) => deleteUpload(ctx, { kind, id }, upload_id),
    }),
    route({
      method: 'DELETE',
      path: below('/:secret/:filename'),
      tag,
      summary: `Delete an upload of a ${kind} by its URL`,
      input: { id: idOrPath(), ...address },
      response: null,
      run: async (ctx, { id, ...at }) => {
        await deleteUploadAt(ctx, { kind, id }, at);
      },
    }),
  ];
};

/** Clients that know a project only by its path build this link, for example as the link of an asset. */
const byPath = streamRoute({
  method: 'GET',
  path: '/*full_path/uploads/:secret/:filename',
  root: true,
  tag: 'Project uploads',
  summary: 'Get an upload of a project by the path of the project',
  description: 'Also works with a path that the project had before.',
  auth: 'optional',
  input: { full_path: text({ max: 1_024 }), ...address },
  run: async (ctx, { full_path, ...at }) => download(ctx, await readUploadBelow(ctx, full_path, at)),
});

export const routes: readonly Route[] = [...routesOf('group'), ...routesOf('project'), byPath];
