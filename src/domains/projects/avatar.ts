import { PUBLIC } from '#domains/access/model.ts';
import { type OpenPicture, openPicture } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
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
