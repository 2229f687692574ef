import type { Selectable } from 'kysely';
import type { ProjectExports, ProjectImports } from '#platform/db/tables.ts';

/** The format this hub writes, and the newest it reads (reference: export-archive §1). */
export const ARCHIVE_VERSION = '0.2.4';
export const ARCHIVE_TYPE = 'application/gzip';
export const IMPORT_TYPE = 'gitlab_project';
/** Of a repository that is cloned by URL. */
export const GIT_TYPE = 'git';
/** A fork runs as an import does, but to others it is none: nothing came from elsewhere. */
export const FORK_TYPE = 'fork';
/** In the path of a project that is to take the place of another, until it does. */
export const REPLACEMENT_MARK = '-import-';

/** What is told of where an import comes from. */
export const importTypeOf = ({ import_type }: Pick<ImportRow, 'import_type'>): string | null =>
  import_type === FORK_TYPE ? null : import_type;

export type ExportRow = Selectable<ProjectExports>;
export type ImportRow = Selectable<ProjectImports>;

/** Specification 1 §3: there is no failed export, only none, or the one that was there before. */
export type ExportStatus = 'none' | 'queued' | 'started' | 'finished' | 'regeneration_in_progress';

/** Items of each relation: how many are done, of how many. */
export type RelationCounts = Readonly<Record<string, { readonly done: number; readonly total: number }>>;

/** The exports of a project that matter: the newest asked for, and the one whose file can be downloaded. */
export interface ExportState {
  readonly status: ExportStatus;
  readonly latest: ExportRow | null;
  readonly file: ExportRow | null;
}

export const exportStatus = (latest: ExportRow | null, file: ExportRow | null): ExportStatus => {
  const running = latest?.status === 'queued' || latest?.status === 'started' ? latest.status : null;
  if (file) return running ? 'regeneration_in_progress' : 'finished';
  return running ?? 'none';
};

const MAX_NAME = 51;

/** `2026-11-21_01-42-330_group_project_export.tar.gz` */
export const downloadName = (at: Date, fullPath: string): string => {
  const iso = at.toISOString();
  const stamp = `${iso.slice(0, 10)}_${iso.slice(11, 13)}-${iso.slice(14, 16)}-${iso.slice(20, 23)}`;
  return `${`${stamp}_${fullPath.replaceAll('/', '_')}`.slice(0, MAX_NAME)}_export.tar.gz`;
};

/** A plain reason for which an export or import ends, and trying again would not help. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
}

/** Somebody else has taken up the work, or it has been ended: what this run does counts no more. */
export class Superseded extends Error {
  override readonly name = 'Superseded';
}
