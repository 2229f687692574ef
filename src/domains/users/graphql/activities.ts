import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { listActivities, type UserActivity } from '../activities.ts';
import { UserRef } from '../graphql.ts';

const ActivityRef = builder.objectRef<UserActivity>('UserActivity').implement({
  fields: (t) => ({
    user: t.field({ type: UserRef, nullable: false, resolve: (activity) => activity }),
    lastActivityOn: t.expose('last_activity_on', { type: 'Date', nullable: false }),
  }),
});

const ActivityConnection = builder.connectionObject(
  { type: ActivityRef, name: 'UserActivityConnection' },
  { name: 'UserActivityEdge' },
);

builder.queryField('userActivities', (t) =>
  t.connection(
    {
      type: ActivityRef,
      nullable: true,
      description:
        'Users with their day of last activity, least recent first. Only administrators see users with private profiles. Null for anonymous callers.',
      args: { from: t.arg({ type: 'Date', description: 'The first day; defaults to half a year ago.' }) },
      resolve: (_root, args, ctx, info) =>
        ctx.actor.userId === null ? null : listConnection(args, info, listActivities(ctx, args.from ?? undefined)),
    },
    ActivityConnection,
  ),
);
