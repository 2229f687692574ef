import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { idOrPath } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { cancelExport, cancelImport, cancelRelationImport, retryImport } from '../control.ts';
import { retryRelationImport } from '../relation-imports/commands.ts';

const tag = 'Exports and imports';
const done = z.object({ message: z.string() });

export const controlRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/export/cancel',
    tag,
    summary: 'Cancel the running export of a project',
    input: { id: idOrPath() },
    response: done,
    run: async (ctx, { id }) => {
      await cancelExport(ctx, await getProject(ctx, id));
      return { message: '201 Canceled' };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/import/cancel',
    tag,
    summary: 'Cancel the running import of a project',
    description: 'What was imported stays. The import can be retried.',
    input: { id: idOrPath() },
    response: done,
    run: async (ctx, { id }) => {
      await cancelImport(ctx, await getProject(ctx, id));
      return { message: '201 Canceled' };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/import/retry',
    tag,
    summary: 'Retry the failed import of a project',
    description:
      'Continues where the import stopped. Returns 409 if its archive is gone, which is so if the archive caused the failure.',
    input: { id: idOrPath() },
    response: done,
    run: async (ctx, { id }) => {
      await retryImport(ctx, await getProject(ctx, id));
      return { message: '201 Scheduled' };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/relation-imports/cancel',
    tag,
    summary: 'Cancel the running relation import of a project',
    description: 'What was imported stays. The import can be retried.',
    input: { id: idOrPath() },
    response: done,
    run: async (ctx, { id }) => {
      await cancelRelationImport(ctx, await getProject(ctx, id));
      return { message: '201 Canceled' };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/relation-imports/retry',
    tag,
    summary: 'Retry the last relation import of a project',
    description:
      'Continues where the import stopped. Returns 409 unless it has failed, or if its archive is gone, which is so if the archive caused the failure.',
    input: { id: idOrPath() },
    response: done,
    run: async (ctx, { id }) => {
      await retryRelationImport(ctx, await getProject(ctx, id));
      return { message: '201 Scheduled' };
    },
  }),
];
