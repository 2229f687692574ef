import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { pictureType } from '#platform/picture.ts';
import type { OpenFile } from '#platform/storage/storage.ts';
import { getGroup } from './queries.ts';

/**
 * The picture of a group under the name that `avatar_url` gives, for whoever may know of the group.
 *
 * @throws DomainError `not_found`, for any other name too
 */
export const openGroupAvatar = async (
  ctx: Context,
  id: number,
  name: string,
): Promise<{ readonly contentType: string; readonly file: OpenFile; readonly isPublic: boolean }> => {
  const key = `avatars/${name}`;
  const contentType = pictureType(name);
  const group = await getGroup(ctx, { id });
  if (group.avatar_key !== key || contentType === null) throw notFound();
  return { contentType, file: await ctx.services.storage.read(key), isPublic: group.visibility_level === 20 };
};
