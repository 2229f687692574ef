import { PUBLIC } from '#domains/access/model.ts';
import { type OpenPicture, openPicture } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
import { getGroup } from './queries.ts';

/**
 * The picture of a group under the name that `avatar_url` gives, for whoever may know of the group.
 *
 * @throws DomainError `not_found`, for any other name too
 */
export const openGroupAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> => {
  const group = await getGroup(ctx, { id });
  return openPicture(ctx, group.avatar_key, name, group.visibility_level === PUBLIC);
};
