import { PUBLIC } from '#domains/access/model.ts';
import { type OpenPicture, openPicture } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
import { findProject } from './queries.ts';

/**
 * The picture of a project under the name that `avatar_url` gives, for whoever may see the project.
 *
 * @throws DomainError `not_found`, for any other name too
 */
export const openProjectAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> => {
  const project = await findProject(ctx, { id }, ['id', 'avatar_key', 'visibility_level']);
  return openPicture(ctx, project?.avatar_key, name, project?.visibility_level === PUBLIC);
};
