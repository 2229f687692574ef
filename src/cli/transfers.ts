import { stat } from 'node:fs/promises';
import { z } from 'zod';
import { type Api, ApiError } from './api.ts';
import {
  ExportStatusDocument,
  FollowExportDocument,
  FollowImportDocument,
  ImportStatusDocument,
  StartExportDocument,
} from './operations/generated.ts';
import type { Step } from './progress.ts';

/**
 * Exports the project, shows its progress, and saves the archive.
 * @throws ApiError when the export failed
 */
export const exportProject = async (
  api: Api,
  fullPath: string,
  file: string,
  step: Step,
): Promise<{ readonly size: number }> => {
  const abort = new AbortController();
  try {
    const updates = await api.subscribe(FollowExportDocument, { fullPath }, abort.signal);
    await api.graphql(StartExportDocument, { projectPath: fullPath });
    for await (const { projectExportUpdated: update } of updates) {
      if (!update) continue;
      step.progress(update.progress, detailOf(update.relations));
      if (update.error) throw new ApiError(`the export failed: ${update.error}`);
      if (update.status === 'FINISHED') break;
    }
  } finally {
    abort.abort();
  }
  const { project } = await api.graphql(ExportStatusDocument, { fullPath });
  if (project?.export?.status !== 'FINISHED')
    throw new ApiError(`the export is ${project?.export?.status ?? 'missing'}`);
  await api.download(`/projects/${encodeURIComponent(fullPath)}/export/download`, file);
  const { size } = await stat(file);
  if (String(size) !== project.export.size) throw new ApiError(`received ${size} of ${project.export.size} bytes`);
  return { size };
};

export interface ImportResult {
  readonly fullPath: string;
  /** Top-level items that were imported. */
  readonly items: number;
  readonly failures: readonly { readonly relation: string; readonly line: number; readonly message: string }[];
}

const importRecord = z.object({ path_with_namespace: z.string(), import_status: z.string() });

/**
 * Imports the archive as a new project and shows its progress.
 * @throws ApiError when the import failed
 */
export const importProject = async (
  api: Api,
  file: string,
  { path, namespace }: { readonly path: string; readonly namespace: string | null },
  step: Step,
): Promise<ImportResult> => {
  const record = await api.upload(importRecord, '/projects/import', file, {
    path,
    ...(namespace === null ? {} : { namespace }),
  });
  const fullPath = record.path_with_namespace;
  const abort = new AbortController();
  try {
    const updates = await api.subscribe(FollowImportDocument, { fullPath }, abort.signal);
    // The import may have ended before the subscription started.
    if (!hasEnded((await readImport(api, fullPath)).status)) {
      for await (const { projectImportUpdated: update } of updates) {
        if (!update) continue;
        step.progress(update.progress, detailOf(update.relations));
        if (hasEnded(update.status)) break;
      }
    }
  } finally {
    abort.abort();
  }
  const { status, error, relations, failedRelations } = await readImport(api, fullPath);
  if (status !== 'FINISHED') throw new ApiError(`the import is ${status}: ${error ?? 'no reason given'}`);
  return {
    fullPath,
    items: relations.reduce((sum, { done }) => sum + done, 0),
    failures: (failedRelations?.nodes ?? []).flatMap((node) =>
      node ? [{ relation: node.relationName, line: node.lineNumber, message: node.exceptionMessage }] : [],
    ),
  };
};

const hasEnded = (status: string): boolean => status === 'FINISHED' || status === 'FAILED';

const readImport = async (api: Api, fullPath: string) => {
  const { project } = await api.graphql(ImportStatusDocument, { fullPath });
  if (!project?.import) throw new ApiError(`${fullPath} has no import`);
  return project.import;
};

const detailOf = (
  relations: readonly { readonly name: string; readonly done: number; readonly total: number }[],
): string => {
  const current = relations.find(({ done, total }) => done < total);
  return current ? `${current.name} ${current.done} of ${current.total}` : '';
};
