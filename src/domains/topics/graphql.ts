import { loadHtml } from '#domains/markdown/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { topicAvatarUrl } from './avatar.ts';
import { listTopics, type TopicRow } from './queries.ts';

const TopicRef = builder.objectRef<TopicRow>('Topic').implement({
  description: 'A topic of projects.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (topic) => gid('Projects::Topic', topic.id) }),
    name: t.exposeString('name', { nullable: false }),
    title: t.exposeString('title', { nullable: false }),
    description: t.exposeString('description'),
    descriptionHtml: t.string({
      resolve: ({ description }, _args, ctx) => loadHtml(ctx, { text: description, home: null }),
    }),
    avatarUrl: t.string({ resolve: (topic, _args, ctx) => topicAvatarUrl(ctx, topic) }),
    totalProjectsCount: t.exposeInt('total_projects_count', {
      nullable: false,
      description: 'The number of projects with the topic whose visibility opens them to the caller.',
    }),
  }),
});

const TopicConnection = builder.connectionObject({ type: TopicRef, name: 'TopicConnection' }, { name: 'TopicEdge' });

builder.queryField('topics', (t) =>
  t.connection(
    {
      type: TopicRef,
      description: 'The topics of projects, those with the most projects first.',
      args: { search: t.arg.string(), withoutProjects: t.arg.boolean() },
      resolve: (_root, { search, withoutProjects, ...page }, ctx, info) =>
        listConnection(
          page,
          info,
          listTopics(ctx, { search: search ?? undefined, without_projects: withoutProjects ?? undefined }),
        ),
    },
    TopicConnection,
  ),
);
