import type { Settings } from '#domains/settings/registry.ts';
import type { ResponseHeaders } from '#platform/http-client/http-client.ts';
import { MIB } from '#platform/values/units.ts';
import { ARCHIVE_TYPE } from '../model.ts';
import type { ArchiveSource } from './source.ts';

/** The limit of specification 1 §4.1, whatever the settings allow. */
const MAX_REMOTE_MIB = 10 * 1024;

export interface SizeLimit {
  readonly bytes: number;
  /** Completes the sentence "The file is larger than ...". */
  readonly name: string;
}

/** Returns the limit on the size of a remote archive, with its name. */
export const remoteSizeLimit = ({ max_import_remote_file_size: mib }: Settings): SizeLimit =>
  mib === 0 || mib >= MAX_REMOTE_MIB
    ? { bytes: MAX_REMOTE_MIB * MIB, name: 'the limit of 10 GB' }
    : { bytes: mib * MIB, name: `the limit of ${mib} MiB (max_import_remote_file_size)` };

export type CheckedHeaders = { readonly size: number } | { readonly problem: string };

/**
 * Checks the headers of a remote archive (specification 1 §4.1): `Content-Length` must be a number within the limit and
 * `Content-Type` must be `application/gzip`. Objects in buckets may have any type, because uploads rarely set one.
 */
export const checkHeaders = (headers: ResponseHeaders, source: ArchiveSource, limit: SizeLimit): CheckedHeaders => {
  const type = single(headers['content-type'])?.split(';')[0]?.trim().toLowerCase();
  if ('url' in source && type !== ARCHIVE_TYPE)
    return { problem: `The file must have the Content-Type ${ARCHIVE_TYPE}` };
  const length = single(headers['content-length']);
  const size = length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null;
  if (size === null) return { problem: 'The Content-Length of the file must be a number' };
  if (size === 0) return { problem: 'The file is empty' };
  return size > limit.bytes ? { problem: `The file is larger than ${limit.name}` } : { size };
};

export const single = (value: string | readonly string[] | undefined): string | null =>
  typeof value === 'string' ? value : null;
