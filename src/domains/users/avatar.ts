import { Readable } from 'node:stream';
import { z } from 'zod';
import type { Context, Tx } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { pictureType, readPicture, type SentFile } from '#platform/picture.ts';
import { removeFiles } from '#platform/remove-files.ts';
import { randomToken } from '#platform/secrets.ts';
import type { OpenFile } from '#platform/storage/storage.ts';

/** Specification 2 §8. */
export const MAX_AVATAR_BYTES = 200 * 1024;

const HOUR_MS = 3_600_000;

/**
 * Stores a picture for a user, group, project or topic and gives its key, for `avatar_key`. The name in it was never used before, so that
 * what is found under it never changes. Throws `invalid` (avatar) for what is no picture that is taken.
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

/** Has the file of a picture removed that nobody will have any more once the transaction commits. */
export const removeAvatar = (tx: Tx, key: string | null): void => {
  if (key !== null) tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [key] });
};

export interface OpenPicture {
  readonly contentType: string;
  readonly file: OpenFile;
  readonly isPublic: boolean;
}

/** The picture with that key, where it is of the name that `avatar_url` gives. @throws DomainError `not_found` for any other name */
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

/** The picture of a user under the name that `avatar_url` gives; anyone may see it. @throws DomainError `not_found`, for any other name too */
export const openAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> => {
  const user = await ctx.db.selectFrom('users').select('avatar_key').where('id', '=', id).executeTakeFirst();
  return openPicture(ctx, user?.avatar_key, name, true);
};

/** The job `avatars.drop_unclaimed`: removes a picture whose request ended, or died, before anybody had it. */
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
