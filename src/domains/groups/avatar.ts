import { PUBLIC } from '#domains/access/model.ts';
import { type OpenPicture, openPicture } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
import { getGroup } from './queries.ts';

/**
 * Opens the avatar of a group, by the name that `avatar_url` gives. Everyone who can see the group can open it.
 *
 * @throws DomainError `not_found`, also for any other name
 */
export const openGroupAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> => {
  const group = await getGroup(ctx, { id });
  return openPicture(ctx, group.avatar_key, name, group.visibility_level === PUBLIC);
};
