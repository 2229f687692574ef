import { Readable } from 'node:stream';
import { z } from 'zod';
import type { Context, Tx } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { pictureType, readPicture, type SentFile } from '#platform/files/picture.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { defineJob } from '#platform/jobs.ts';
import { randomToken } from '#platform/secrets.ts';
import type { OpenFile } from '#platform/storage/storage.ts';
import { HOUR_MS } from '#platform/values/units.ts';

/** In bytes (specification 2 §8). */
export const MAX_AVATAR_BYTES = 200 * 1024;

/**
 * Stores a picture for a user, group, project or topic and returns its key, for `avatar_key`. The file name in the key
 * is always new, so the content under a key never changes.
 *
 * @throws `invalid` (avatar) when the file is not a picture of a supported type
 */
export const storeAvatar = async (ctx: Context, file: SentFile): Promise<string> => {
  const picture = await readPicture(file, MAX_AVATAR_BYTES);
  if ('problem' in picture) throw invalid({ avatar: [picture.problem] });
  const key = `avatars/${randomToken()}.${picture.extension}`;
  const runAt = new Date(ctx.clock.now().getTime() + HOUR_MS);
  await ctx.transaction(async (tx) => tx.enqueue(dropUnclaimedAvatar, { key }, { runAt }));
  const contentType = pictureType(key);
  await ctx.services.storage.write(key, Readable.from([picture.bytes]), {
    signal: ctx.signal,
    ...(contentType === null ? {} : { contentType }),
  });
  return key;
};

/** Queues the removal of a picture's file. The job runs once the transaction commits. */
export const removeAvatar = (tx: Tx, key: string | null): void => {
  if (key !== null) tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [key] });
};

export interface OpenPicture {
  readonly contentType: string;
  readonly file: OpenFile;
  readonly isPublic: boolean;
}

/**
 * Opens the picture with that key, if `name` is the name in its `avatar_url`. @throws `not_found` for any other name
 */
export const openPicture = async (
  ctx: Context,
  key: string | null | undefined,
  name: string,
  isPublic: boolean,
): Promise<OpenPicture> => {
  const contentType = pictureType(name);
  if (key !== `avatars/${name}` || contentType === null) throw notFound();
  return { contentType, file: await ctx.services.storage.read(key), isPublic };
};

/**
 * Opens a user's picture by the name in its `avatar_url`. Anyone may see it. @throws `not_found`, also for any other
 * name
 */
export const openAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> => {
  const user = await ctx.db.selectFrom('users').select('avatar_key').where('id', '=', id).executeTakeFirst();
  return openPicture(ctx, user?.avatar_key, name, true);
};

/**
 * The job `avatars.drop_unclaimed`: removes an uploaded picture whose request ended before the picture was attached.
 */
export const dropUnclaimedAvatar = defineJob({
  name: 'avatars.drop_unclaimed',
  input: z.object({ key: z.string() }),
  maxAttempts: 25,
  run: async ({ db, services }, { key }) => {
    const claimed = await db
      .selectFrom('users')
      .select('id')
      .where('avatar_key', '=', key)
      .unionAll(db.selectFrom('namespaces').select('id').where('avatar_key', '=', key))
      .unionAll(db.selectFrom('projects').select('id').where('avatar_key', '=', key))
      .unionAll(db.selectFrom('topics').select('id').where('avatar_key', '=', key))
      .executeTakeFirst();
    if (!claimed) await services.storage.remove(key);
  },
});
