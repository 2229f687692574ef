import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import {
  type Container,
  type ContainerAddress,
  getContainer,
  lockContainer,
  ownerColumns,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { HOUR_MS } from '#platform/values/units.ts';
import { uploadCreated, uploadDeleted } from './events.ts';
import { dropUnclaimed } from './jobs.ts';
import { type Address, containerId, safeName, uploadFolder } from './model.ts';
import { administeredContainer, getUpload, getUploadAt, type UploadRow } from './queries.ts';

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

const SECRET_BYTES = 20;

/**
 * Attaches a file to a group or project, under a URL that cannot be guessed. Requires a Guest.
 *
 * @throws as `getContainer`, `forbidden`
 */
export const createUpload = async (ctx: Context, name: ContainerAddress, file: SentAttachment) => {
  const seen = await getContainer(ctx, name.kind, name.id);
  requireContainerAbility(ctx, seen, 'upload_file');
  const secret = randomBytes(SECRET_BYTES).toString('hex');
  const storage_key = uploadFolder(seen.kind, containerId(seen)) + secret;
  // This job removes the file if no row is inserted: the process dies, or the caller loses their role meanwhile.
  const runAt = new Date(ctx.clock.now().getTime() + HOUR_MS);
  await ctx.transaction(async (tx) => tx.enqueue(dropUnclaimed, { storage_key }, { runAt }));
  const { size } = await ctx.services.storage.write(storage_key, await file.open(), { signal: ctx.signal });
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'upload_file');
    const row = await tx.db
      .insertInto('uploads')
      .values({
        ...ownerColumns(container),
        secret,
        filename: safeName(file.filename),
        size,
        storage_key,
        uploaded_by_id: ctx.actor.userId,
      })
      .returningAll()
      .executeTakeFirstOrThrow();
    await addToStatistics(tx, row.project_id, size);
    tx.emit(uploadCreated, uploadEvent(container, row));
    return { container, row };
  });
};

/** Deletes an upload. Requires a Maintainer. @throws as `getUpload` */
export const deleteUpload = async (ctx: Context, name: ContainerAddress, id: number): Promise<void> => {
  await remove(ctx, name, await getUpload(ctx, name, id));
};

/** Deletes an upload by its URL. @throws as `getUploadAt` */
export const deleteUploadAt = async (ctx: Context, name: ContainerAddress, address: Address): Promise<UploadRow> => {
  const row = await getUploadAt(ctx, name, address);
  await remove(ctx, name, row);
  return row;
};

const remove = async (ctx: Context, name: ContainerAddress, { id }: UploadRow): Promise<void> => {
  const seen = await administeredContainer(ctx, name);
  await ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, seen, 'admin_uploads');
    const gone = await tx.db.deleteFrom('uploads').where('id', '=', id).returningAll().executeTakeFirst();
    if (!gone) return;
    await addToStatistics(tx, gone.project_id, -gone.size);
    tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [gone.storage_key] });
    tx.emit(uploadDeleted, uploadEvent(container, gone));
  });
};

/** Adds to the size of the uploads of a project. */
export const addToStatistics = async (tx: Tx, projectId: number | null, bytes: number): Promise<void> => {
  if (projectId === null) return;
  await tx.db
    .updateTable('project_statistics')
    .set({ uploads_size: sql`uploads_size + ${bytes}` })
    .where('project_id', '=', projectId)
    .execute();
};

const uploadEvent = (container: Container, { id, filename, size, project_id, namespace_id }: UploadRow) => ({
  subject: { type: 'Upload', id },
  project_id,
  namespace_ids: container.kind === 'group' ? container.group.traversal_ids : container.project.namespace.traversal_ids,
  min_access_level: MAINTAINER,
  payload: { id, filename, size, project_id, group_id: namespace_id },
});
