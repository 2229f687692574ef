import type { Selectable } from 'kysely';
import type { ProjectExports, ProjectImports } from '#platform/db/tables.ts';

/** The format version that this hub writes, and the newest that it reads (reference: export-archive §1). */
export const ARCHIVE_VERSION = '0.2.4';
export const ARCHIVE_TYPE = 'application/gzip';
export { IMPORT_TYPE } from '#domains/projects/model.ts';
/** The type of an import that clones a repository by URL. */
export const GIT_TYPE = 'git';
/** Forks run as imports internally. The API does not show them as imports. */
export const FORK_TYPE = 'fork';
/** Part of the path of an imported project until it replaces another one. */
export const REPLACEMENT_MARK = '-import-';

/** Returns the import type for the API. Null for forks. */
export const importTypeOf = ({ import_type }: Pick<ImportRow, 'import_type'>): string | null =>
  import_type === FORK_TYPE ? null : import_type;

export type ExportRow = Selectable<ProjectExports>;
export type ImportRow = Selectable<ProjectImports>;

/** Specification 1 §3: a failed export shows as `none`, or as the earlier export that is still available. */
export const EXPORT_STATUSES = ['none', 'queued', 'started', 'finished', 'regeneration_in_progress'] as const;
export type ExportStatus = (typeof EXPORT_STATUSES)[number];
/** The statuses in the row of an export that is not finished. */
export const RUNNING_EXPORT = ['queued', 'started'] as const satisfies readonly ExportStatus[];

/** By relation: the number of finished items and the total. */
export type RelationCounts = Readonly<Record<string, { readonly done: number; readonly total: number }>>;

/** The exports of a project that matter: the latest, and the newest with a file to download. */
export interface ExportState {
  readonly status: ExportStatus;
  readonly latest: ExportRow | null;
  readonly file: ExportRow | null;
}

export const exportStatus = (latest: ExportRow | null, file: ExportRow | null): ExportStatus => {
  const running = RUNNING_EXPORT.find((status) => status === latest?.status) ?? null;
  if (file) return running ? 'regeneration_in_progress' : 'finished';
  return running ?? 'none';
};

const MAX_NAME = 51;

/** Returns a file name such as `2026-11-21_01-42-330_group_project_export.tar.gz`. */
export const downloadName = (at: Date, fullPath: string): string => {
  const iso = at.toISOString();
  const stamp = `${iso.slice(0, 10)}_${iso.slice(11, 13)}-${iso.slice(14, 16)}-${iso.slice(20, 23)}`;
  return `${`${stamp}_${fullPath.replaceAll('/', '_')}`.slice(0, MAX_NAME)}_export.tar.gz`;
};

/** An export or import fails for a reason that users may see and that a retry would not change. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
}

/** Another attempt has taken over, or the work has ended. This attempt must not write any more. */
export class Superseded extends Error {
  override readonly name = 'Superseded';
}
