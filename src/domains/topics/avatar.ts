import { type OpenPicture, openPicture } from '#domains/users/avatar.ts';
import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';
import { getTopic, type TopicRow } from './queries.ts';

/** Returns the URL of the topic's avatar, or null. */
export const topicAvatarUrl = (
  ctx: Pick<Context, 'services'>,
  { id, avatar_key }: Pick<TopicRow, 'id' | 'avatar_key'>,
): string | null =>
  avatar_key === null
    ? null
    : webUrl(ctx, `uploads/-/system/projects/topic/avatar/${id}/${avatar_key.slice(avatar_key.lastIndexOf('/') + 1)}`);

/**
 * Opens the avatar of a topic, by the name that `avatar_url` gives. Everyone who can see the topic can open it.
 *
 * @throws DomainError `not_found`, also for any other name
 */
export const openTopicAvatar = async (ctx: Context, id: number, name: string): Promise<OpenPicture> =>
  openPicture(ctx, (await getTopic(ctx, id)).avatar_key, name, false);
