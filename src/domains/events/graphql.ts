import { builder } from '#graphql/builder.ts';
import { eventCursor, subscriptionField } from '#graphql/subscription.ts';
import { type EventRow, shownPayload } from '#platform/events.ts';
import { scopeFilter } from './scope.ts';

const EventRef = builder.objectRef<EventRow>('Event').implement({
  description: 'Something that happened: one entry of the event log.',
  // Everyone who may see the event may see all of it, so one execution serves all its subscribers.
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    cursor: t.string({
      nullable: false,
      description: 'Pass it as `after` to continue after this event.',
      resolve: eventCursor,
    }),
    kind: t.exposeString('kind', { nullable: false }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    actorId: t.exposeInt('actor_id', { description: 'The user who caused it. Null for the hub itself.' }),
    subjectType: t.exposeString('subject_type', { nullable: false }),
    subjectId: t.exposeInt('subject_id', { nullable: false }),
    projectId: t.exposeInt('project_id'),
    namespaceIds: t.field({
      type: ['Int'],
      nullable: { list: false, items: false },
      description: 'The group or personal namespace that the event belongs to and its ancestors, outermost first.',
      resolve: (event) => [...event.namespace_ids],
    }),
    payload: t.field({ type: 'JSON', resolve: shownPayload }),
  }),
});

const EventScope = builder.inputType('EventScope', {
  description: 'The scope: a project, a group with everything below it, or everything that the caller may see.',
  fields: (t) => ({ projectPath: t.id(), groupPath: t.id() }),
});

subscriptionField('events', {
  description: 'Every event the caller may see, as it is committed. Continues behind `after`.',
  type: EventRef,
  args: (t) => ({
    scope: t({ type: EventScope }),
    kinds: t.stringList({ description: 'Event kinds such as `push.received`. All kinds if absent.' }),
  }),
  open: async (ctx, { scope, kinds }) => ({
    kinds: kinds ? new Set(kinds) : null,
    ...(await scopeFilter(ctx, scope ?? {})),
  }),
  resolve: async (event) => event,
});
