import { PUBLIC } from '#domains/access/model.ts';
import { type OpenPicture, openPicture, removeAvatar, storeAvatar } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { SentFile } from '#platform/files/picture.ts';
import { findProjectWith } from './queries.ts';

/**
 * Opens the avatar of a project, by the name that `avatar_url` gives. Everyone who can see the project can open it.
 *
 * @throws DomainError `not_found`, also for any other name
 */
export const openProjectAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> => {
  const project = await findProjectWith(ctx, { id }, ['id', 'avatar_key', 'visibility_level']);
  return openPicture(ctx, project?.avatar_key, name, project?.visibility_level === PUBLIC);
};

/**
 * Stores the picture of an imported project, without an event. Returns null, or a problem that completes a sentence
 * after the file's name. Then nothing is stored.
 */
export const importAvatar = async (ctx: Context, id: number, file: SentFile): Promise<string | null> => {
  let avatar_key: string;
  try {
    avatar_key = await storeAvatar(ctx, file);
  } catch (error) {
    if (error instanceof DomainError && error.code === 'invalid')
      return error.details.fields?.avatar?.[0] ?? 'is invalid';
    throw error;
  }
  await ctx.transaction(async (tx) => {
    const before = await tx.db
      .selectFrom('projects')
      .select('avatar_key')
      .where('id', '=', id)
      .forUpdate()
      .executeTakeFirst();
    if (!before) return;
    await tx.db.updateTable('projects').set({ avatar_key }).where('id', '=', id).execute();
    // An earlier attempt has stored it too.
    removeAvatar(tx, before.avatar_key);
  });
  return null;
};
