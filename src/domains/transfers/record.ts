import { z } from 'zod';
import { IMPORT_STATUSES, nameWithNamespace, type ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { apiUrl } from '#platform/urls.ts';
import { apiLink } from '#rest/v5.ts';
import { importStats } from './importing/stats.ts';
import { EXPORT_STATUSES, type ExportState, type ImportRow, importTypeOf } from './model.ts';
import type { ImportFailureRow } from './queries.ts';

const head = {
  id: z.int(),
  description: z.string().nullable(),
  name: z.string(),
  name_with_namespace: z.string(),
  path: z.string(),
  path_with_namespace: z.string(),
  created_at: z.string(),
};

const toHead = (project: ProjectRow) => ({
  id: project.id,
  description: project.description,
  name: project.name,
  name_with_namespace: nameWithNamespace(project),
  path: project.path,
  path_with_namespace: project.full_path,
  created_at: isoTime(project.created_at),
});

/** The export status (specification 1 §2.1). */
export const exportRecord = z
  .object({
    ...head,
    export_status: z.enum(EXPORT_STATUSES),
    export_error: z.string().nullable().describe('Why the latest export, or its upload, failed.'),
    _links: z.object({ api_url: apiLink(z.string()), web_url: apiLink(z.string()) }).optional(),
  })
  .meta({ id: 'ProjectExportStatus' });

export const toExportRecord = (
  ctx: Context,
  project: ProjectRow,
  { status, latest }: ExportState,
): z.output<typeof exportRecord> => ({
  ...toHead(project),
  export_status: status,
  export_error: latest?.error ?? null,
  ...(status === 'finished'
    ? {
        _links: {
          api_url: exportApiUrl(ctx, project),
          // The hub has no page for it, so browsers get the same address.
          web_url: exportApiUrl(ctx, project),
        },
      }
    : {}),
});

const exportApiUrl = (ctx: Context, project: Pick<ProjectRow, 'id'>): string =>
  apiUrl(ctx, `projects/${project.id}/export/download`);

/** The import status (specification 1 §2.2). */
export const importRecord = z
  .object({
    ...head,
    import_status: z.enum(IMPORT_STATUSES),
    import_type: z.string().nullable(),
    correlation_id: z.string().nullable(),
    failed_relations: z.array(
      z.object({
        id: z.int(),
        created_at: z.string(),
        exception_class: z.string(),
        exception_message: z.string(),
        source: z.string(),
        relation_name: z.string(),
        line_number: z.int(),
      }),
    ),
    import_error: z.string().nullable(),
    stats: importStats
      .optional()
      .describe('The number of objects of each kind in the source, and of those that were imported.'),
  })
  .meta({ id: 'ProjectImportStatus' });

/** `problems` is null for callers who may not see them. */
export const toImportRecord = (
  project: ProjectRow,
  row: ImportRow | null,
  problems: readonly ImportFailureRow[] | null,
): z.output<typeof importRecord> => ({
  ...toHead(project),
  import_status: project.import_status,
  import_type: row ? importTypeOf(row) : project.import_type,
  correlation_id: row?.correlation_id ?? null,
  failed_relations: (problems ?? []).map(({ project_id, ...failure }) => ({
    ...failure,
    created_at: isoTime(failure.created_at),
  })),
  import_error: (problems && row?.import_error) ?? null,
  ...(row?.stats ? { stats: importStats.parse(row.stats) } : {}),
});
