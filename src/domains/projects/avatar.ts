import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { pictureType } from '#platform/picture.ts';
import type { OpenFile } from '#platform/storage/storage.ts';
import { findProject } from './queries.ts';

/**
 * The picture of a project under the name that `avatar_url` gives, for whoever may see the project.
 *
 * @throws DomainError `not_found`, for any other name too
 */
export const openProjectAvatar = async (
  ctx: Context,
  id: number,
  name: string,
): Promise<{ readonly contentType: string; readonly file: OpenFile; readonly isPublic: boolean }> => {
  const key = `avatars/${name}`;
  const contentType = pictureType(name);
  const project = await findProject(ctx, { id }, ['id', 'avatar_key', 'visibility_level']);
  if (project?.avatar_key !== key || contentType === null) throw notFound();
  return { contentType, file: await ctx.services.storage.read(key), isPublic: project.visibility_level === 20 };
};
