import { createHash } from 'node:crypto';
import { z } from 'zod';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context } from '#platform/context.ts';
import type { ByteRange } from '#platform/storage/storage.ts';
import { boolean, fileUpload, hash, idOrPath, oneOf, text } from '#rest/params.ts';
import { route, streamRoute } from '#rest/route.ts';
import { scheduleExport, scheduleImport } from './commands.ts';
import { ARCHIVE_TYPE } from './model.ts';
import { canSeeProblems, findImport, getExportFile, getExportState, listImportFailures } from './queries.ts';
import { exportRecord, importRecord, toExportRecord, toImportRecord } from './record.ts';
import { controlRoutes } from './rest/control.ts';
import { forkRoutes } from './rest/forks.ts';
import { relationImportRoutes, uploadedArchive } from './rest/relation-imports.ts';
import { overrideParams, remoteImportRoutes } from './rest/remote-imports.ts';

const tag = 'Exports and imports';
const MAX_FAILURES = 100;

export const routes = [
  ...forkRoutes,
  ...remoteImportRoutes,
  ...relationImportRoutes,
  ...controlRoutes,
  route({
    method: 'POST',
    path: '/projects/:id/export',
    tag,
    summary: 'Export a project',
    description:
      'Repeating the request while that export is running changes nothing. Returns 409 for another upload or description, and while the project is being imported.',
    input: {
      id: idOrPath(),
      description: text({ max: 2_000 }).nullish(),
      upload: hash({ url: text({ max: 8_192 }), http_method: oneOf(['PUT', 'POST']).optional() }).nullish(),
    },
    status: 202,
    response: z.object({ message: z.literal('202 Accepted') }),
    run: async (ctx, { id, ...options }) => {
      await scheduleExport(ctx, await getProject(ctx, id), options);
      return { message: '202 Accepted' as const };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/export',
    tag,
    summary: 'Get the export status of a project',
    input: { id: idOrPath() },
    response: exportRecord,
    run: async (ctx, { id }) => {
      const project = await getProject(ctx, id);
      return toExportRecord(ctx, project, await getExportState(ctx, project));
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/export/download',
    tag,
    summary: 'Download the exported archive',
    description: 'To resume a download, send `Range` with the `ETag` in `If-Range`. Each part counts as a download.',
    input: { id: idOrPath() },
    run: async (ctx, { id }) => {
      const project = await getProject(ctx, id);
      const { key, filename, size } = await getExportFile(ctx, project);
      await limitAction(ctx, 'project_download_export_limit', project.id);
      const open = async (part?: ByteRange) => (await ctx.services.storage.read(key, part)).stream;
      return { stream: () => open(), part: open, size, filename, contentType: ARCHIVE_TYPE, etag: etagOf(key) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/import',
    tag,
    summary: 'Import a project from an archive',
    input: {
      file: fileUpload(uploadedArchive),
      path: text({ max: 255 }),
      name: text({ max: 255 }).nullish(),
      namespace: idOrPath().nullish(),
      override_params: overrideParams(),
      overwrite: boolean().default(false),
    },
    response: importRecord,
    run: async (ctx, { file, ...options }) => {
      const project = await scheduleImport(ctx, { ...options, storageKey: file.key });
      file.keep();
      return toImportRecord(project, await findImport(ctx, project.id), []);
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/import',
    tag,
    summary: 'Get the import status of a project',
    description: 'Only Maintainers and above see errors.',
    input: { id: idOrPath() },
    response: importRecord,
    run: async (ctx, { id }) => importStatus(ctx, await getProject(ctx, id)),
  }),
];

/** The content of a key never changes. */
const etagOf = (key: string): string => `"${createHash('sha256').update(key).digest('base64url')}"`;

const importStatus = async (ctx: Context, project: ProjectRow) => {
  const problems = canSeeProblems(ctx, project)
    ? await listImportFailures(ctx, project.id).rows({ limit: MAX_FAILURES })
    : null;
  return toImportRecord(project, await findImport(ctx, project.id), problems);
};
