import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { topicAvatarUrl } from './avatar.ts';
import type { TopicRow } from './queries.ts';

export const topicRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    title: z.string(),
    description: z.string().nullable(),
    total_projects_count: z
      .int()
      .describe('The number of projects with the topic whose visibility opens them to the caller.'),
    avatar_url: z.string().nullable(),
  })
  .meta({ id: 'Topic' });

export const toTopic = (ctx: Context, topic: TopicRow): z.output<typeof topicRecord> => ({
  id: topic.id,
  name: topic.name,
  title: topic.title,
  description: topic.description,
  total_projects_count: topic.total_projects_count,
  avatar_url: topicAvatarUrl(ctx, topic),
});
