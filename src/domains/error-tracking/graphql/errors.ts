import { IssueRef, loadIssue } from '#domains/issues/graphql.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import {
  type Bar,
  dailyByErrors,
  type Facet,
  facetsByErrors,
  hourlyByErrors,
  type TagShares,
  tagsByErrors,
} from '../errors/charts.ts';
import { type ErrorRow, errorsByIds, lastSeenHour } from '../errors/queries.ts';
import { crashFreeRate, type ReleaseRow, type Sessions, sessionsByReleases } from '../errors/releases.ts';
import { findEvent, listEventsBelow, newestEvents } from '../errors/stored-events.ts';
import { LEVELS, STATUSES } from '../model.ts';
import { EventConnection, EventRef } from './events.ts';

const loadHourly = loader(hourlyByErrors);
const loadDaily = loader(dailyByErrors);
const loadFacets = loader(facetsByErrors);
const loadTags = loader(tagsByErrors);
const loadNewest = loader(newestEvents);
const loadSessions = loader(sessionsByReleases);

const loadError = loader(errorsByIds);

/** Returns the error if it belongs to the project. The caller checks `read_error`. */
export const loadErrorOf = async (
  ctx: Context,
  project: { readonly id: number },
  id: number,
): Promise<ErrorRow | null> => {
  const error = await loadError(ctx, id);
  return error?.project_id === project.id ? error : null;
};

interface EventArguments extends ConnectionArguments {
  readonly environment?: string | null | undefined;
  readonly release?: string | null | undefined;
}
const eventsOfError = batchedConnection((ctx, args: EventArguments) => listEventsBelow(ctx, args));

export const StatusEnum = builder.enumType('ErrorTrackingErrorStatus', { values: upperCase(STATUSES) });

export const LevelEnum = builder.enumType('ErrorTrackingLevel', { values: upperCase(LEVELS) });

export const BarRef = builder.objectRef<Bar>('ErrorTrackingBar').implement({
  description: 'The number of events in a period.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    time: t.expose('time', { type: 'Time', nullable: false, description: 'The start of the period.' }),
    count: t.exposeInt('count', { nullable: false }),
  }),
});

const FacetRef = builder.objectRef<Facet>('ErrorTrackingFacet').implement({
  description: 'An environment or release in which an error was seen.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    value: t.exposeString('value', { nullable: false }),
    count: t.exposeInt('event_count', { nullable: false }),
    firstSeen: t.expose('first_seen', { type: 'Time', nullable: false }),
    lastSeen: t.expose('last_seen', { type: 'Time', nullable: false }),
  }),
});

const TagValue = builder.objectRef<TagShares['values'][number]>('ErrorTrackingTagValue').implement({
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    value: t.exposeString('value', { nullable: false }),
    count: t.exposeInt('count', { nullable: false }),
  }),
});

const TagSharesRef = builder.objectRef<TagShares>('ErrorTrackingTagShares').implement({
  description: 'How often the values of a tag occur among the newest 1,000 events of an error.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    key: t.exposeString('key', { nullable: false }),
    total: t.exposeInt('total', { nullable: false, description: 'The events that have the tag.' }),
    values: t.field({
      type: [TagValue],
      nullable: { list: false, items: false },
      description: 'The ten most frequent values.',
      resolve: ({ values }) => [...values],
    }),
  }),
});

/** An error. Resolvers must have checked `read_error`. */
export const ErrorRef = builder.objectRef<ErrorRow>('ErrorTrackingError').implement({
  description: 'Similar events that an application reported.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('ErrorTracking::Error', id) }),
    status: t.expose('status', { type: StatusEnum, nullable: false }),
    level: t.field({
      type: LevelEnum,
      description: 'The level of the newest event.',
      resolve: ({ level }) => LEVELS.find((each) => each === level) ?? null,
    }),
    platform: t.exposeString('platform', { nullable: false }),
    type: t.exposeString('type', { description: 'The type of the exception.' }),
    title: t.exposeString('title', { nullable: false }),
    culprit: t.exposeString('culprit', { description: 'The transaction, or the function that failed.' }),
    count: t.exposeInt('event_count', { nullable: false, description: 'The number of events, also of dropped ones.' }),
    userCount: t.exposeInt('user_count', { nullable: false, description: 'The number of affected users.' }),
    userCountIsExact: t.boolean({
      nullable: false,
      description: 'Above 10,000 users the number is an estimate within about 2 %.',
      resolve: ({ user_sampling }) => user_sampling === 0,
    }),
    firstSeen: t.expose('first_seen', { type: 'Time', nullable: false }),
    lastSeen: t.field({
      type: 'Time',
      nullable: false,
      description: 'By full hours. `lastSeenAt` is exact.',
      resolve: lastSeenHour,
    }),
    lastSeenAt: t.expose('last_seen', { type: 'Time', nullable: false }),
    firstRelease: t.exposeString('first_release'),
    lastRelease: t.exposeString('last_release'),
    assignee: t.field({
      type: UserRef,
      resolve: ({ assignee_id }, _args, ctx) => (assignee_id === null ? null : loadUser(ctx, assignee_id)),
    }),
    issue: t.field({
      type: IssueRef,
      description: 'The linked issue, if the caller can see it.',
      resolve: ({ issue_id }, _args, ctx) => (issue_id === null ? null : loadIssue(ctx, issue_id)),
    }),
    resolvedAt: t.expose('resolved_at', { type: 'Time' }),
    resolvedBy: t.field({
      type: UserRef,
      resolve: ({ resolved_by_id }, _args, ctx) => (resolved_by_id === null ? null : loadUser(ctx, resolved_by_id)),
    }),
    resolvedRelease: t.exposeString('resolved_release', {
      description:
        'Events from earlier releases do not reopen the error. For an error that is resolved in the next release, neither do events from this one.',
    }),
    ignoredUntil: t.expose('ignored_until', { type: 'Time' }),
    ignoredUntilCount: t.exposeInt('ignored_until_count', {
      description: 'The error is shown again when its count reaches this.',
    }),
    regressedAt: t.expose('regressed_at', {
      type: 'Time',
      description: 'When it last occurred again after it was resolved.',
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
    hourlyCounts: t.field({
      type: [BarRef],
      nullable: { list: false, items: false },
      description: 'The last 24 hours, the running one last.',
      resolve: async ({ id }, _args, ctx) => [...((await loadHourly(ctx, id)) ?? [])],
    }),
    dailyCounts: t.field({
      type: [BarRef],
      nullable: { list: false, items: false },
      description: 'The last 14 days (UTC), today last.',
      resolve: async ({ id }, _args, ctx) => [...((await loadDaily(ctx, id)) ?? [])],
    }),
    environments: t.field({
      type: [FacetRef],
      nullable: { list: false, items: false },
      description: 'Those of the last 90 days with most events, at most 100.',
      resolve: async ({ id }, _args, ctx) => [...((await loadFacets(ctx, id))?.environments ?? [])],
    }),
    releases: t.field({
      type: [FacetRef],
      nullable: { list: false, items: false },
      description: 'Those of the last 90 days with most events, at most 100.',
      resolve: async ({ id }, _args, ctx) => [...((await loadFacets(ctx, id))?.releases ?? [])],
    }),
    tags: t.field({
      type: [TagSharesRef],
      nullable: { list: false, items: false },
      extensions: { cost: 10 },
      resolve: async ({ id }, _args, ctx) => [...((await loadTags(ctx, id)) ?? [])],
    }),
    newestEvent: t.field({
      type: EventRef,
      description: 'Null after the retention of 90 days.',
      resolve: ({ id }, _args, ctx) => loadNewest(ctx, id),
    }),
    event: t.field({
      type: EventRef,
      args: { eventId: t.arg.string({ required: true, description: '32 hexadecimal digits.' }) },
      resolve: (error, { eventId }, ctx) => (/^[0-9a-f]{32}$/i.test(eventId) ? findEvent(ctx, error, eventId) : null),
    }),
    events: t.connection(
      {
        type: EventRef,
        description: 'Newest first.',
        args: { environment: t.arg.string(), release: t.arg.string() },
        resolve: ({ id }, args, ctx, info) => eventsOfError(id, args, ctx, info),
      },
      EventConnection,
    ),
  }),
});
export const ErrorConnection = builder.connectionObject(
  { type: ErrorRef, name: 'ErrorTrackingErrorConnection' },
  { name: 'ErrorTrackingErrorEdge' },
);

const SessionsRef = builder.objectRef<Sessions>('ErrorTrackingSessions').implement({
  description: 'The sessions of a release within 90 days.',
  fields: (t) => ({
    total: t.exposeInt('total', { nullable: false }),
    errored: t.exposeInt('errored', { nullable: false }),
    crashed: t.exposeInt('crashed', { nullable: false }),
    abnormal: t.exposeInt('abnormal', { nullable: false }),
    crashFreeRate: t.float({ description: 'From 0 to 1.', resolve: crashFreeRate }),
  }),
});

export const ReleaseRef = builder.objectRef<ReleaseRow>('ErrorTrackingRelease').implement({
  description: 'A version of an application that reported errors or sessions.',
  fields: (t) => ({
    version: t.exposeString('version', { nullable: false }),
    firstSeen: t.expose('first_seen', { type: 'Time', nullable: false }),
    lastSeen: t.expose('last_seen', { type: 'Time', nullable: false }),
    count: t.exposeInt('event_count', { nullable: false, description: 'The number of its error events.' }),
    sessions: t.field({
      type: SessionsRef,
      description: 'Null if it reported no sessions.',
      resolve: ({ id }, _args, ctx) => loadSessions(ctx, id),
    }),
  }),
});
export const ReleaseConnection = builder.connectionObject(
  { type: ReleaseRef, name: 'ErrorTrackingReleaseConnection' },
  { name: 'ErrorTrackingReleaseEdge' },
);
