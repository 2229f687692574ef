import { Readable } from 'node:stream';
import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { ByteProgress } from '../byte-progress.ts';
import { ARCHIVE_TYPE, type ImportRow, TransferError } from '../model.ts';
import { DOWNLOAD_SHARE } from '../progress.ts';
import { updateStartedImport } from '../update-import.ts';
import { CannotResume, type FileIdentity, fetchArchive, fileIdentity, isIdentified } from './fetch.ts';
import { remoteSizeLimit } from './headers.ts';
import { folderOf, partKey } from './keys.ts';
import { Parts } from './parts.ts';
import { openSource } from './source.ts';

/** A killed process loses at most this much of a download. */
const PART_BYTES = 8 * 1024 * 1024;

/**
 * Downloads the archive of a remote import into the storage, in parts. Continues after the parts of an earlier attempt
 * if the server says that the file is still the same. Starts over once if a download cannot be resumed. Clears
 * `source_url` at the end.
 *
 * @throws TransferError if the server or the file is at fault
 */
export const downloadArchive = async (ctx: Context, row: ImportRow, project: ProjectRow): Promise<void> => {
  await removeUnrecorded(ctx, row);
  const resume = resumable(row);
  try {
    await downloadParts(ctx, resume ? row : await forgetParts(ctx, row), project, resume);
  } catch (error) {
    if (!(error instanceof CannotResume)) throw error;
    ctx.log.info({ import_id: row.id, reason: error.message }, 'downloading the remote archive from the start');
    await downloadParts(ctx, await forgetParts(ctx, row), project, null);
  }
};

/** Removes parts of attempts that died before they recorded them. */
const removeUnrecorded = async (ctx: Context, row: ImportRow): Promise<void> => {
  const { storage } = ctx.services;
  const recorded = new Set(row.download_parts);
  for await (const { key } of storage.list(folderOf(row))) if (!recorded.has(key)) await storage.remove(key);
};

/** Returns where the download stopped. Null if nothing is here, or the server sends nothing that identifies the file. */
const resumable = ({ download_validators, download_part_bytes: received }: ImportRow) => {
  const file = fileIdentity.safeParse(download_validators).data;
  return file && received > 0 && isIdentified(file) ? { file, received } : null;
};

const downloadParts = async (
  ctx: Context,
  row: ImportRow,
  project: ProjectRow,
  resume: { readonly file: FileIdentity; readonly received: number } | null,
): Promise<void> => {
  if (row.source_url === null) throw new TransferError('The address of the archive is gone.');
  const { storage } = ctx.services;
  let file = resume?.file ?? null;
  const progress = new ByteProgress(ctx, row, project, (bytes) => ({
    download_bytes: bytes,
    download_size: file?.size ?? null,
    percentage: file === null ? 0 : (bytes / file.size) * DOWNLOAD_SHARE,
  }));
  const chunks = fetchArchive(ctx, openSource(ctx, row.source_url), {
    limit: remoteSizeLimit(await getSettings(ctx)),
    resume,
    onFile: (found) => {
      file = found;
    },
    onBytes: (bytes) => progress.report(bytes),
  });
  let index = row.download_parts.length;
  try {
    for await (const part of new Parts(chunks, PART_BYTES)) {
      const key = partKey(row, index++);
      try {
        const { size } = await storage.write(key, Readable.from(part, { objectMode: false }), {
          contentType: ARCHIVE_TYPE,
          signal: ctx.signal,
        });
        await progress.settled();
        await ctx.transaction(async (tx) => {
          await updateStartedImport(tx, row, {
            download_parts: sql`download_parts || ${key}::text`,
            download_part_bytes: sql`download_part_bytes + ${size}::bigint`,
            download_validators: toJsonb(file),
          });
        });
      } catch (error) {
        await storage.remove(key);
        throw error;
      }
    }
  } finally {
    // Otherwise the last progress of a download that failed could be written over the state of the next one.
    await progress.settled();
  }
  await ctx.transaction(async (tx) => {
    await updateStartedImport(tx, row, {
      source_url: null,
      download_bytes: file?.size ?? 0,
      download_size: file?.size ?? null,
      percentage: sql`greatest(percentage, ${DOWNLOAD_SHARE}::float8)`,
    });
  });
};

/** Forgets and removes all parts. Returns the row without them. */
const forgetParts = async (ctx: Context, row: ImportRow): Promise<ImportRow> => {
  const none = {
    download_parts: sql<string[]>`'{}'`,
    download_part_bytes: 0,
    download_validators: null,
    download_bytes: 0,
  };
  const forgotten = await ctx.transaction((tx) => updateStartedImport(tx, row, none));
  await removeUnrecorded(ctx, forgotten);
  return forgotten;
};
