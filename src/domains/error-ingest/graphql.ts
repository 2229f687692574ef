import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { type Usage, usageByProjects } from './queries.ts';

const UsageRef = builder.objectRef<Usage>('ErrorTrackingUsage').implement({
  description: 'What a client key has sent in an hour.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    clientKeyId: t.id({ nullable: false, resolve: (usage) => gid('ErrorTracking::ClientKey', usage.client_key_id) }),
    start: t.expose('start', { type: 'Time', nullable: false, description: 'The hour.' }),
    events: t.exposeInt('events', { nullable: false }),
    others: t.exposeInt('others', { nullable: false, description: 'Sessions and reports.' }),
    refused: t.exposeInt('refused', { nullable: false, description: 'Above a quota.' }),
    invalid: t.exposeInt('invalid', { nullable: false, description: 'No envelope, or too large.' }),
    failed: t.exposeInt('failed', { nullable: false, description: 'Stored, but not understood.' }),
    dropped: t.exposeInt('dropped', {
      nullable: false,
      description: 'Items of accepted envelopes that nothing uses, such as attachments.',
    }),
  }),
});

const loadUsage = loader(usageByProjects);

projectField('errorTrackingUsage', JUDGED, (t) =>
  t.field({
    type: [UsageRef],
    nullable: { list: true, items: false },
    description:
      'What the client keys have sent in the last 24 hours, by hour. Only for maintainers; null for other callers.',
    resolve: async (project, _args, ctx) =>
      can(ctx, project, 'admin_error_tracking') ? ((await loadUsage(ctx, project.id)) ?? []) : null,
  }),
);
