import { type OpenPicture, openPicture } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';
import { getTopic, type TopicRow } from './queries.ts';

/** Where the picture of the topic is shown, or null. */
export const topicAvatarUrl = (
  ctx: Pick<Context, 'services'>,
  { id, avatar_key }: Pick<TopicRow, 'id' | 'avatar_key'>,
): string | null =>
  avatar_key === null
    ? null
    : webUrl(ctx, `uploads/-/system/projects/topic/avatar/${id}/${avatar_key.slice(avatar_key.lastIndexOf('/') + 1)}`);

/**
 * The picture of a topic under the name that `avatar_url` gives, for whoever may know of the topic.
 *
 * @throws DomainError `not_found`, for any other name too
 */
export const openTopicAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> =>
  openPicture(ctx, (await getTopic(ctx, id)).avatar_key, name, false);
