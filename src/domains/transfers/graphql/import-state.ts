import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { ImportRow } from '../model.ts';
import { canSeeProblems, importsByProjects } from '../queries.ts';

export const loadImport = loader(importsByProjects);

interface ImportState extends Pick<ImportRow, 'id' | 'status' | 'started_at' | 'finished_at'> {
  readonly url: string | null;
  readonly error: string | null;
}

const DetailedImportStatusRef = builder.objectRef<ImportState>('DetailedImportStatus').implement({
  description: 'The import state in the form that frontends expect. `Project.import` has more details.',
  fields: (t) => ({
    id: t.id({ resolve: ({ id }) => gid('ProjectImportState', id) }),
    status: t.exposeString('status'),
    url: t.exposeString('url', { description: 'Without credentials. Only for Maintainers and above.' }),
    lastError: t.exposeString('error', { description: 'Only for Maintainers and above.' }),
    lastUpdateAt: t.expose('finished_at', { type: 'Time' }),
    lastUpdateStartedAt: t.expose('started_at', { type: 'Time' }),
    lastSuccessfulUpdateAt: t.field({
      type: 'Time',
      resolve: ({ status, finished_at }) => (status === 'finished' ? finished_at : null),
    }),
  }),
});

projectField('detailedImportStatus', [...JUDGED, 'import_url'], (t) =>
  t.field({
    type: DetailedImportStatusRef,
    description: 'Null for a project that was not imported, and for anonymous callers.',
    resolve: async (project, _args, ctx) => {
      const found = await loadImport(ctx, project.id);
      if (!found) return null;
      const seesProblems = canSeeProblems(ctx, project);
      return {
        ...found,
        url: seesProblems ? project.import_url : null,
        error: seesProblems ? found.import_error : null,
      };
    },
  }),
);
