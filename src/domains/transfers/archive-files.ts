import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { importAvatar } from '#domains/projects/avatar.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { importUpload, uploadsToArchive } from '#domains/uploads/archive.ts';
import type { ArchiveEntry } from '#platform/archive/read-archive.ts';
import type { ArchiveWriter } from '#platform/archive/write-archive.ts';
import type { Context } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';

const AVATAR = /^avatar\/[^/]{1,255}$/;
const UPLOAD = /^uploads\/([0-9a-f]{32,64})\/([^/]{1,255})$/;
/**
 * Parts of a project that this hub has no use for. They are kept as they came, so that a later export carries them on
 * (decision 49).
 */
const KEPT =
  /^(?:project\.(?:wiki|design)\.bundle|lfs-objects\.json|lfs-objects\/[0-9a-f]{64}|snippets\/[0-9a-f]{1,128}\.bundle)$/;
/** Relations of the same kind. None of them holds secrets, or ids of users that grant anything. */
const KEPT_RELATION = /^tree\/project\/(?:boards|project_badges|external_pull_requests|service_desk_setting)\.ndjson$/;

/** Returns whether an entry of an archive is a file that `takeFile` takes. */
export const isTaken = (name: string): boolean =>
  [AVATAR, UPLOAD, KEPT, KEPT_RELATION].some((pattern) => pattern.test(name));

/**
 * Stores a file of an archive for the project. Repeating it changes nothing. Empty relations need no file. Returns null,
 * or why the file is left out, as the end of a sentence.
 */
export const takeFile = async (
  ctx: Context,
  { id: project_id }: ProjectRow,
  userId: number,
  { name, size, stream }: ArchiveEntry,
): Promise<string | null> => {
  if (size === 0 && KEPT_RELATION.test(name)) return null;
  const content = Readable.from(stream, { objectMode: false });
  if (AVATAR.test(name)) return importAvatar(ctx, project_id, { size, open: async () => content });
  const [, secret, filename] = UPLOAD.exec(name) ?? [];
  if (secret !== undefined && filename !== undefined) {
    await importUpload(ctx, project_id, userId, { secret, filename }, content);
    return null;
  }
  const digest = createHash('sha256').update(name).digest('hex');
  const storage_key = `kept/${project_id}/${digest}`;
  // The row comes first, so that a file without one cannot stay behind.
  await ctx.db
    .insertInto('kept_files')
    .values({ project_id, name, size, storage_key })
    .onConflict((clash) => clash.columns(['project_id', 'name']).doUpdateSet({ size }))
    .execute();
  await ctx.services.storage.write(storage_key, content, { signal: ctx.signal });
  const row = await ctx.db
    .selectFrom('kept_files')
    .select('id')
    .where('project_id', '=', project_id)
    .where('name', '=', name)
    .executeTakeFirst();
  // If the project was deleted meanwhile, its files were removed before this one was there.
  if (!row) await ctx.services.storage.remove(storage_key);
  return null;
};

/** Writes the avatar, the uploads and the kept files of the project into the archive. */
export const writeFiles = async (
  ctx: Context,
  db: Database,
  { id, avatar_key }: ProjectRow,
  archive: ArchiveWriter,
): Promise<void> => {
  const { storage } = ctx.services;
  const copy = async (name: string, key: string): Promise<void> => {
    // A deleted upload may still have its row in the snapshot.
    const found = await storage.stat(key);
    if (!found) return;
    const { stream, size } = await storage.read(key);
    try {
      await archive.entry(name, stream, { size });
    } finally {
      stream.destroy();
    }
  };
  if (avatar_key !== null) await copy(`avatar/${avatar_key.slice(avatar_key.lastIndexOf('/') + 1)}`, avatar_key);
  for await (const { secret, filename, storage_key } of uploadsToArchive(db, id))
    await copy(`uploads/${secret}/${filename}`, storage_key);
  const kept = await db
    .selectFrom('kept_files')
    .select(['name', 'storage_key'])
    .where('project_id', '=', id)
    .orderBy('id')
    .execute();
  for (const { name, storage_key } of kept) await copy(name, storage_key);
};
