import { MAX_AVATAR_BYTES } from '#domains/users/avatar.ts';
import { tooBig } from '#platform/files/picture.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, fileUpload, integer, text } from '#rest/params.ts';
import { pictureRoute } from '#rest/picture-route.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { openTopicAvatar } from './avatar.ts';
import { createTopic, deleteTopic, mergeTopics, updateTopic } from './commands.ts';
import { getTopic, listTopics } from './queries.ts';
import { topicRecord, toTopic } from './record.ts';

const tag = 'Topics';

const id = integer({ min: 1 });
const fields = {
  title: text().optional(),
  description: text().nullish(),
  avatar: fileUpload({ maxBytes: MAX_AVATAR_BYTES, tooLarge: tooBig(MAX_AVATAR_BYTES) }).nullish(),
};

export const routes = [
  listRoute({
    path: '/topics',
    tag,
    summary: 'List the topics of projects',
    description:
      'Those with the most projects first. Topics that only closed projects have are visible only to administrators, unless an administrator created them.',
    auth: 'optional',
    paging: 'offset',
    input: {
      search: text({ max: 255 }).optional(),
      without_projects: boolean().default(false).describe('Only topics without projects.'),
    },
    item: topicRecord,
    run: async (ctx, filter, page) => {
      const { items, ...rest } = await readPage(listTopics(ctx, filter), page);
      return { ...rest, items: items.map((topic) => toTopic(ctx, topic)) };
    },
  }),
  route({
    method: 'GET',
    path: '/topics/:id',
    tag,
    summary: 'Get a topic',
    auth: 'optional',
    input: { id },
    response: topicRecord,
    run: async (ctx, input) => toTopic(ctx, await getTopic(ctx, input.id)),
  }),
  route({
    method: 'POST',
    path: '/topics',
    tag,
    summary: 'Create a topic',
    admin: true,
    input: { name: text(), ...fields },
    response: topicRecord,
    run: async (ctx, input) => toTopic(ctx, await createTopic(ctx, input)),
  }),
  route({
    method: 'PUT',
    path: '/topics/:id',
    tag,
    summary: 'Change a topic',
    description: 'A new name applies to all projects that have the topic. An empty `avatar` removes the avatar.',
    admin: true,
    input: { id, name: text().optional(), ...fields },
    response: topicRecord,
    run: async (ctx, { id: topicId, ...changes }) => toTopic(ctx, await updateTopic(ctx, topicId, changes)),
  }),
  route({
    method: 'DELETE',
    path: '/topics/:id',
    tag,
    summary: 'Delete a topic',
    description: 'Removes it from all projects.',
    admin: true,
    refusals: MODIFIED,
    input: { id },
    response: null,
    run: (ctx, input, http) => deleteTopic(ctx, input.id, unmodifiedSince(http)),
  }),
  route({
    method: 'POST',
    path: '/topics/merge',
    tag,
    summary: 'Merge a topic into another',
    description: 'Replaces the source by the target in all projects, and deletes the source.',
    admin: true,
    input: { source_topic_id: id, target_topic_id: id },
    response: topicRecord,
    run: async (ctx, { source_topic_id, target_topic_id }) =>
      toTopic(ctx, await mergeTopics(ctx, source_topic_id, target_topic_id)),
  }),
  pictureRoute({ of: 'projects/topic', tag, summary: "Get a topic's avatar", open: openTopicAvatar }),
] satisfies readonly Route[];
