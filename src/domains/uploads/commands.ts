import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { getPlace, ownerColumns, type Place, requirePlaceAbility } from '#domains/planning/place.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { removeFiles } from '#platform/remove-files.ts';
import { uploadCreated, uploadDeleted } from './events.ts';
import { dropUnclaimed } from './jobs.ts';
import { type Address, placeId, safeName, uploadFolder } from './model.ts';
import { administeredPlace, getUpload, getUploadAt, type PlaceName, type UploadRow } from './queries.ts';

/** A received file. */
export interface SentAttachment {
  readonly filename: string;
  open(): Promise<Readable>;
}

/** Returns the maximum file size of the settings, in bytes; null for no limit. */
export const maxAttachmentBytes = async (ctx: Context): Promise<number | null> => {
  const { max_attachment_size: mebibytes } = await getSettings(ctx);
  return mebibytes === 0 ? null : mebibytes * 1024 * 1024;
};

const HOUR_MS = 3_600_000;
const SECRET_BYTES = 20;

/**
 * Attaches a file to a group or project, under a URL that cannot be guessed. Requires a Guest.
 *
 * @throws as `getPlace`, `forbidden`
 */
export const createUpload = async (ctx: Context, name: PlaceName, file: SentAttachment) => {
  const place = await getPlace(ctx, name.kind, name.id);
  requirePlaceAbility(ctx, place, 'upload_file');
  const secret = randomBytes(SECRET_BYTES).toString('hex');
  const storage_key = uploadFolder(place.kind, placeId(place)) + secret;
  // If the process dies before the row is inserted, this job removes the file.
  const runAt = new Date(ctx.clock.now().getTime() + HOUR_MS);
  await ctx.transaction(async (tx) => tx.enqueue(dropUnclaimed, { storage_key }, { runAt }));
  const { size } = await ctx.services.storage.write(storage_key, await file.open(), { signal: ctx.signal });
  const row = await ctx.transaction(async (tx) => {
    const made = await tx.db
      .insertInto('uploads')
      .values({
        ...ownerColumns(place),
        secret,
        filename: safeName(file.filename),
        size,
        storage_key,
        uploaded_by_id: ctx.actor.userId,
      })
      .returningAll()
      .executeTakeFirstOrThrow();
    await addToStatistics(tx, made.project_id, size);
    tx.emit(uploadCreated, told(place, made));
    return made;
  });
  return { place, row };
};

/** Deletes an upload. Requires a Maintainer. @throws as `getUpload` */
export const deleteUpload = async (ctx: Context, name: PlaceName, id: number): Promise<void> => {
  await remove(ctx, name, await getUpload(ctx, name, id));
};

/** Deletes an upload by its URL. @throws as `getUploadAt` */
export const deleteUploadAt = async (ctx: Context, name: PlaceName, address: Address): Promise<UploadRow> => {
  const row = await getUploadAt(ctx, name, address);
  await remove(ctx, name, row);
  return row;
};

const remove = async (ctx: Context, name: PlaceName, { id }: UploadRow): Promise<void> => {
  const place = await administeredPlace(ctx, name);
  await ctx.transaction(async (tx) => {
    const gone = await tx.db.deleteFrom('uploads').where('id', '=', id).returningAll().executeTakeFirst();
    if (!gone) return;
    await addToStatistics(tx, gone.project_id, -gone.size);
    tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [gone.storage_key] });
    tx.emit(uploadDeleted, told(place, gone));
  });
};

const addToStatistics = async (tx: Tx, projectId: number | null, bytes: number): Promise<void> => {
  if (projectId === null) return;
  await tx.db
    .updateTable('project_statistics')
    .set({ uploads_size: sql`uploads_size + ${bytes}` })
    .where('project_id', '=', projectId)
    .execute();
};

const told = (place: Place, { id, filename, size, project_id, namespace_id }: UploadRow) => ({
  subject: { type: 'Upload', id },
  project_id,
  namespace_ids: place.kind === 'group' ? place.group.traversal_ids : place.project.namespace.traversal_ids,
  min_access_level: MAINTAINER,
  payload: { id, filename, size, project_id, group_id: namespace_id },
});
