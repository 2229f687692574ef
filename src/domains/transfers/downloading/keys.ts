import type { ImportRow } from '../model.ts';

export const folderOf = ({ id }: Pick<ImportRow, 'id'>): string => `imports/${id}/`;

/** Each attempt writes files of its own, so that a slow one cannot disturb its successor. */
export const partKey = (row: Pick<ImportRow, 'id' | 'attempt'>, index: number): string =>
  `${folderOf(row)}${row.attempt}-${index}.part`;

/** Returns the storage keys of the import's archive, or of what has been downloaded of it. */
export const archiveKeys = ({
  storage_key,
  download_parts,
}: Pick<ImportRow, 'storage_key' | 'download_parts'>): readonly string[] =>
  storage_key === null ? download_parts : [storage_key];
