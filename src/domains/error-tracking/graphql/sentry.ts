import { loadIssue } from '#domains/issues/graphql.ts';
import { issueWebUrl } from '#domains/issues/model.ts';
import { JUDGED, loadProject, projectField } from '#domains/projects/graphql.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { webUrl } from '#platform/urls.ts';
import type { StoredEvent } from '../digest/payload.ts';
import { type Bar, hourlyByErrors } from '../errors/charts.ts';
import { type ErrorRow, lastSeenHour, listErrorsBelow } from '../errors/queries.ts';
import { newestEvents } from '../errors/stored-events.ts';
import type { NormalizedFrame } from '../event.ts';
import { errorWebUrl, STATUSES } from '../model.ts';
import { loadErrorOf } from './errors.ts';
import { payloadOf, sourceOf } from './events.ts';

// The reading side under the names that existing frontends use (reference: error-tracking §9). Our own names, with all
// that is known, are in `Project.errorTracking`.

const loadHourly = loader(hourlyByErrors);
const loadNewest = loader(newestEvents);

const Status = builder.enumType('SentryErrorStatus', { values: upperCase(STATUSES) });

const Frequency = builder.objectRef<Bar>('SentryErrorFrequency').implement({
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    time: t.expose('time', { type: 'Time', nullable: false }),
    count: t.exposeInt('count', { nullable: false }),
  }),
});

const Tags = builder
  .objectRef<{ readonly level: string; readonly logger: string | null }>('SentryErrorTags')
  .implement({
    extensions: { viewerIndependent: true },
    fields: (t) => ({ level: t.exposeString('level'), logger: t.exposeString('logger') }),
  });

const sentryGid = ({ id }: ErrorRow): string => gid('Gitlab::ErrorTracking::DetailedError', id);

/** Everyone who can read an error can see its project. */
const projectOf = async (ctx: Context, { project_id }: ErrorRow): Promise<ProjectRow> => {
  const project = await loadProject(ctx, project_id);
  if (!project) throw notFound('Project');
  return project;
};

const newestPayload = async (ctx: Context, { id }: ErrorRow): Promise<StoredEvent | null> => {
  const newest = await loadNewest(ctx, id);
  return newest && payloadOf(ctx, newest);
};

const messageOf = async (ctx: Context, error: ErrorRow): Promise<string | null> => {
  const payload = await newestPayload(ctx, error);
  return payload ? (payload.message?.formatted ?? payload.exceptions.at(-1)?.value ?? null) : null;
};

type Fields = PothosSchemaTypes.ObjectFieldBuilder<Types, ErrorRow>;

/** The fields that both types of an error have. */
const commonFields = (t: Fields) => ({
  id: t.id({ nullable: false, resolve: sentryGid }),
  sentryId: t.string({ nullable: false, resolve: ({ id }) => String(id) }),
  shortId: t.string({
    nullable: false,
    resolve: async (error, _args, ctx) => `${(await projectOf(ctx, error)).path.toUpperCase()}-${error.id}`,
  }),
  title: t.exposeString('title', { nullable: false }),
  type: t.string({ nullable: false, resolve: ({ type }) => type ?? 'default' }),
  message: t.string({
    description: 'Of the newest event. Null after the retention of 90 days.',
    resolve: (error, _args, ctx) => messageOf(ctx, error),
  }),
  culprit: t.string({ nullable: false, resolve: ({ culprit }) => culprit ?? '' }),
  status: t.expose('status', { type: Status, nullable: false }),
  count: t.exposeInt('event_count', { nullable: false }),
  userCount: t.exposeInt('user_count', { nullable: false }),
  firstSeen: t.expose('first_seen', { type: 'Time', nullable: false }),
  lastSeen: t.field({ type: 'Time', nullable: false, resolve: lastSeenHour }),
  frequency: t.field({
    type: [Frequency],
    nullable: { list: false, items: false },
    description: 'The last 24 hours.',
    resolve: async ({ id }, _args, ctx) => [...((await loadHourly(ctx, id)) ?? [])],
  }),
  externalUrl: t.string({
    nullable: false,
    resolve: async (error, _args, ctx) => errorWebUrl(ctx, await projectOf(ctx, error), error),
  }),
  sentryProjectId: t.id({ nullable: false, resolve: ({ project_id }) => String(project_id) }),
  sentryProjectName: t.string({
    nullable: false,
    resolve: async (error, _args, ctx) => (await projectOf(ctx, error)).name,
  }),
  sentryProjectSlug: t.string({
    nullable: false,
    resolve: async (error, _args, ctx) => (await projectOf(ctx, error)).path,
  }),
});

const SentryError = builder.objectRef<ErrorRow>('SentryError').implement({
  description: 'An error, as lists show it.',
  fields: commonFields,
});
const SentryErrorConnection = builder.connectionObject(
  { type: SentryError, name: 'SentryErrorConnection' },
  { name: 'SentryErrorEdge' },
);

/** Some applications name their releases by the commit. */
const commitIn = (version: string | null): string | null =>
  version !== null && /^[0-9a-f]{40}$/.test(version) ? version : null;

const shortVersion = (version: string | null): string | null =>
  commitIn(version)?.slice(0, 12) ?? version?.replace(/^[^@]+@/, '') ?? null;

const DetailedError = builder.objectRef<ErrorRow>('SentryDetailedError').implement({
  description: 'An error with its releases.',
  fields: (t) => ({
    ...commonFields(t),
    externalBaseUrl: t.string({ nullable: false, resolve: (_node, _args, ctx) => ctx.services.urls.base }),
    integrated: t.boolean({ nullable: false, description: 'Always true.', resolve: () => true }),
    firstReleaseVersion: t.exposeString('first_release'),
    firstReleaseShortVersion: t.string({ resolve: ({ first_release }) => shortVersion(first_release) }),
    firstReleaseLastCommit: t.string({
      description: 'If the release is named by a commit.',
      resolve: ({ first_release }) => commitIn(first_release),
    }),
    lastReleaseVersion: t.exposeString('last_release'),
    lastReleaseShortVersion: t.string({ resolve: ({ last_release }) => shortVersion(last_release) }),
    lastReleaseLastCommit: t.string({
      description: 'If the release is named by a commit.',
      resolve: ({ last_release }) => commitIn(last_release),
    }),
    gitlabCommit: t.string({
      description: 'The commit of the first release, if the release is named by it.',
      resolve: ({ first_release }) => commitIn(first_release),
    }),
    gitlabCommitPath: t.string({
      resolve: async (error, _args, ctx) => {
        const commit = commitIn(error.first_release);
        return commit && `/${(await projectOf(ctx, error)).full_path}/-/commit/${commit}`;
      },
    }),
    gitlabIssuePath: t.string({
      description: 'Of the linked issue, if the caller can see it.',
      resolve: async (error, _args, ctx) => {
        const issue = error.issue_id === null ? null : await loadIssue(ctx, error.issue_id);
        return issue && new URL(issueWebUrl(ctx, await projectOf(ctx, error), issue)).pathname;
      },
    }),
    tags: t.field({
      type: Tags,
      nullable: false,
      resolve: async (error, _args, ctx) => ({
        level: error.level,
        logger: (await newestPayload(ctx, error))?.logger ?? null,
      }),
    }),
  }),
});

const TraceLine = builder
  .objectRef<{ readonly line: number | null; readonly code: string }>('SentryErrorStackTraceContext')
  .implement({
    extensions: { viewerIndependent: true },
    fields: (t) => ({ line: t.exposeInt('line'), code: t.exposeString('code', { nullable: false }) }),
  });

const TraceEntry = builder.objectRef<NormalizedFrame>('SentryErrorStackTraceEntry').implement({
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    function: t.exposeString('function'),
    fileName: t.string({ resolve: ({ filename, abs_path }) => filename ?? abs_path }),
    line: t.string({ resolve: ({ lineno }) => (lineno === null ? null : String(lineno)) }),
    col: t.string({ resolve: ({ colno }) => (colno === null ? null : String(colno)) }),
    traceContext: t.field({ type: [TraceLine], resolve: sourceOf }),
  }),
});

interface Trace {
  readonly issue_id: number;
  readonly received_at: string;
  readonly frames: readonly NormalizedFrame[];
}

const StackTrace = builder.objectRef<Trace>('SentryErrorStackTrace').implement({
  description: 'The stack of the newest event.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    issueId: t.string({ nullable: false, resolve: ({ issue_id }) => String(issue_id) }),
    dateReceived: t.field({ type: 'Time', nullable: false, resolve: ({ received_at }) => received_at }),
    stackTraceEntries: t.field({
      type: [TraceEntry],
      nullable: { list: false, items: false },
      description: 'Of the exception that was thrown: the caller first, the crash last.',
      resolve: ({ frames }) => [...frames],
    }),
  }),
});

const ORDERS = { last_seen: 'last_seen', first_seen: 'first_seen', frequency: 'event_count' } as const;
const isOrder = (name: string): name is keyof typeof ORDERS => Object.hasOwn(ORDERS, name);

const orderNamed = (name: string) => {
  if (!isOrder(name)) throw badRequest(`sort must be one of ${Object.keys(ORDERS).join(', ')}`);
  return ORDERS[name];
};

interface ErrorArguments extends ConnectionArguments {
  readonly searchTerm?: string | null | undefined;
  readonly sort?: string | null | undefined;
}
const errorsOfProject = batchedConnection((ctx, { searchTerm, sort }: ErrorArguments) =>
  listErrorsBelow(ctx, { search: searchTerm, order_by: orderNamed(sort ?? 'last_seen') }),
);

const Collection = builder
  .objectRef<{ readonly id: number; readonly full_path: string }>('SentryErrorCollection')
  .implement({
    description: 'The errors of a project, under the names of the Sentry integration.',
    fields: (t) => ({
      externalUrl: t.string({
        resolve: ({ full_path }, _args, ctx) => webUrl(ctx, `${full_path}/-/error_tracking`),
      }),
      errors: t.connection(
        {
          type: SentryError,
          description: 'Newest first.',
          args: {
            searchTerm: t.arg.string(),
            sort: t.arg.string({ description: 'last_seen (default), first_seen or frequency.' }),
          },
          resolve: ({ id }, args, ctx, info) => errorsOfProject(id, args, ctx, info),
        },
        SentryErrorConnection,
      ),
      detailedError: t.field({
        type: DetailedError,
        args: { id: t.arg({ type: 'GitlabErrorTrackingDetailedErrorID', required: true }) },
        resolve: (project, { id }, ctx) => loadErrorOf(ctx, project, id),
      }),
      errorStackTrace: t.field({
        type: StackTrace,
        args: { id: t.arg({ type: 'GitlabErrorTrackingDetailedErrorID', required: true }) },
        resolve: async (project, { id }, ctx) => {
          const newest = (await loadErrorOf(ctx, project, id)) && (await loadNewest(ctx, id));
          const payload = newest && (await payloadOf(ctx, newest));
          if (!payload) return null;
          const thrown = payload.exceptions.at(-1)?.frames ?? [];
          return { issue_id: id, received_at: newest.received_at, frames: thrown.length > 0 ? thrown : payload.stack };
        },
      }),
    }),
  });

projectField('sentryErrors', [...JUDGED, 'full_path'], (t) =>
  t.field({
    type: Collection,
    description: 'Requires at least the Reporter role; null for other callers.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_error') ? project : null),
  }),
);

projectField('sentryDetailedError', JUDGED, (t) =>
  t.field({
    type: DetailedError,
    args: { id: t.arg({ type: 'GitlabErrorTrackingDetailedErrorID', required: true }) },
    resolve: (project, { id }, ctx) => (can(ctx, project, 'read_error') ? loadErrorOf(ctx, project, id) : null),
  }),
);
