import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can, type JudgedProject } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createClientKey, deleteClientKey, updateSettings } from './commands.ts';
import { type Discards, dailyByProjects, discardsByProjects, hourlyByProjects } from './errors/charts.ts';
import { notifyingProjects, setErrorNotifications } from './errors/notifications.ts';
import { type ErrorFilter, listErrorsBelow } from './errors/queries.ts';
import { listReleasesBelow } from './errors/releases.ts';
import {
  BarRef,
  ErrorConnection,
  ErrorRef,
  LevelEnum,
  loadErrorOf,
  ReleaseConnection,
  ReleaseRef,
  StatusEnum,
} from './graphql/errors.ts';
import { type ClientKeyRow, dsnOf, publicKeyOf, type Settings } from './model.ts';
import { clientKeysByProjects, readSettings, settingsByProjects } from './queries.ts';

const ClientKeyRef = builder.objectRef<ClientKeyRow>('ErrorTrackingClientKey').implement({
  description: 'A key with which applications report errors.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('ErrorTracking::ClientKey', id) }),
    active: t.boolean({ nullable: false, resolve: () => true, description: 'A key that is deleted is gone.' }),
    publicKey: t.string({
      description: 'Null if it was encrypted with a lost key.',
      resolve: (row, _args, ctx) => publicKeyOf(ctx, row),
    }),
    sentryDsn: t.string({
      description: 'The Data Source Name, which SDKs need. Null if `publicKey` is.',
      resolve: (row, _args, ctx) => dsnOf(ctx, row),
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
  }),
});

const SORTS = {
  LAST_SEEN_DESC: { order_by: 'last_seen', sort: 'desc' },
  LAST_SEEN_ASC: { order_by: 'last_seen', sort: 'asc' },
  FIRST_SEEN_DESC: { order_by: 'first_seen', sort: 'desc' },
  FIRST_SEEN_ASC: { order_by: 'first_seen', sort: 'asc' },
  COUNT_DESC: { order_by: 'event_count', sort: 'desc' },
  COUNT_ASC: { order_by: 'event_count', sort: 'asc' },
  USER_COUNT_DESC: { order_by: 'user_count', sort: 'desc' },
  USER_COUNT_ASC: { order_by: 'user_count', sort: 'asc' },
} as const;
const ErrorSort = builder.enumType('ErrorTrackingErrorSort', {
  values: [
    ...(['LAST_SEEN_DESC', 'LAST_SEEN_ASC', 'FIRST_SEEN_DESC', 'FIRST_SEEN_ASC'] as const),
    ...(['COUNT_DESC', 'COUNT_ASC', 'USER_COUNT_DESC', 'USER_COUNT_ASC'] as const),
  ] satisfies readonly (keyof typeof SORTS)[],
});

const loadSettings = loader(settingsByProjects);
const loadClientKeys = loader(clientKeysByProjects);
const loadNotifying = loader(notifyingProjects);
const loadHourly = loader(hourlyByProjects);
const loadDaily = loader(dailyByProjects);
const loadDiscards = loader(discardsByProjects);

interface ErrorArguments
  extends ConnectionArguments,
    Omit<ErrorFilter, 'assignee_id' | 'seen_since' | 'order_by' | 'sort'> {
  readonly assigneeId?: number | null | undefined;
  readonly seenSince?: string | null | undefined;
  readonly sort?: keyof typeof SORTS | null | undefined;
}
const errorsOfProject = batchedConnection((ctx, { sort, assigneeId, seenSince, ...args }: ErrorArguments) =>
  listErrorsBelow(ctx, {
    ...{ ...args, assignee_id: assigneeId, seen_since: seenSince },
    ...SORTS[sort ?? 'LAST_SEEN_DESC'],
  }),
);
const releasesOfProject = batchedConnection((ctx, _args: ConnectionArguments) => listReleasesBelow(ctx));

const DiscardsRef = builder.objectRef<Discards>('ErrorTrackingDiscards').implement({
  description: 'What SDKs dropped before sending it, as they report it.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    time: t.expose('hour', { type: 'Time', nullable: false, description: 'The hour.' }),
    reason: t.exposeString('reason', { nullable: false, description: 'Such as `ratelimit_backoff`.' }),
    category: t.exposeString('category', { nullable: false, description: 'Such as `error` or `session`.' }),
    count: t.exposeInt('quantity', { nullable: false }),
  }),
});

interface ErrorTracking extends Settings {
  readonly project: JudgedProject & { readonly id: number };
}

const ErrorTrackingRef = builder.objectRef<ErrorTracking>('ErrorTracking').implement({
  description: 'The errors that applications report to a project.',
  fields: (t) => ({
    enabled: t.exposeBoolean('active', { nullable: false, description: 'Whether errors are taken.' }),
    integrated: t.exposeBoolean('integrated', { nullable: false, description: 'Whether errors are stored here.' }),
    clientKeys: t.field({
      type: [ClientKeyRef],
      nullable: { list: true, items: false },
      description:
        'The keys by id. None if no errors are stored here. Null for callers below Maintainer. Tokens need the scope `api`.',
      resolve: async ({ project, active, integrated }, _args, ctx) => {
        if (!can(ctx, project, 'admin_error_tracking')) return null;
        return active && integrated ? ((await loadClientKeys(ctx, project.id)) ?? []) : [];
      },
    }),
    notificationsEnabled: t.boolean({
      nullable: false,
      description: 'Whether the caller gets mails about new, regressed and resolved errors.',
      resolve: async ({ project }, _args, ctx) => (await loadNotifying(ctx, project.id)) ?? false,
    }),
    hourlyCounts: t.field({
      type: [BarRef],
      nullable: { list: false, items: false },
      description: 'The events of all errors in the last 24 hours, the running one last.',
      resolve: async ({ project }, _args, ctx) => [...((await loadHourly(ctx, project.id)) ?? [])],
    }),
    dailyCounts: t.field({
      type: [BarRef],
      nullable: { list: false, items: false },
      description: 'The events of all errors in the last 14 days (UTC), today last.',
      resolve: async ({ project }, _args, ctx) => [...((await loadDaily(ctx, project.id)) ?? [])],
    }),
    discards: t.field({
      type: [DiscardsRef],
      nullable: { list: false, items: false },
      description: 'What SDKs dropped in the last 24 hours by hour, newest first, at most 500.',
      resolve: async ({ project }, _args, ctx) => [...((await loadDiscards(ctx, project.id)) ?? [])],
    }),
    error: t.field({
      type: ErrorRef,
      nullable: true,
      args: { id: t.arg({ type: 'ErrorTrackingErrorID', required: true }) },
      resolve: ({ project }, { id }, ctx) => loadErrorOf(ctx, project, id),
    }),
    errors: t.connection(
      {
        type: ErrorRef,
        args: {
          search: t.arg.string({ description: 'A part of the title or the culprit.' }),
          status: t.arg({ type: StatusEnum }),
          level: t.arg({ type: LevelEnum }),
          environment: t.arg.string({ description: 'Errors that were seen there in the last 90 days.' }),
          release: t.arg.string({ description: 'Errors that were seen in it in the last 90 days.' }),
          assigneeId: t.arg({ type: 'UserID' }),
          seenSince: t.arg({ type: 'Time', description: 'Errors that were seen at this time or later.' }),
          sort: t.arg({ type: ErrorSort, defaultValue: 'LAST_SEEN_DESC' }),
        },
        resolve: ({ project }, args, ctx, info) => errorsOfProject(project.id, args, ctx, info),
      },
      ErrorConnection,
    ),
    releases: t.connection(
      {
        type: ReleaseRef,
        description: 'The versions of the application, those that were seen first last.',
        resolve: ({ project }, args, ctx, info) => releasesOfProject(project.id, args, ctx, info),
      },
      ReleaseConnection,
    ),
  }),
});

projectField('errorTracking', JUDGED, (t) =>
  t.field({
    type: ErrorTrackingRef,
    nullable: true,
    description: 'Requires at least the Reporter role; null for other callers.',
    resolve: async (project, _args, ctx) => {
      if (!can(ctx, project, 'read_error')) return null;
      const settings = await loadSettings(ctx, project.id);
      return settings ? { project, ...settings } : null;
    },
  }),
);

mutationField('errorTrackingClientKeyCreate', {
  description: 'Creates a key with which applications report errors. For maintainers.',
  input: (t) => ({ projectPath: t.id({ required: true }) }),
  payload: { clientKey: ClientKeyRef },
  run: async (ctx, { projectPath }) => ({
    clientKey: await createClientKey(ctx, await getProject(ctx, { path: projectPath })),
  }),
});

mutationField('errorTrackingClientKeyDestroy', {
  description: 'Deletes a client key. Applications that use it are refused from then on. For maintainers.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    id: t.field({ type: 'ErrorTrackingClientKeyID', required: true }),
  }),
  payload: { clientKey: ClientKeyRef },
  run: async (ctx, { projectPath, id }) => ({
    clientKey: await deleteClientKey(ctx, await getProject(ctx, { path: projectPath }), id),
  }),
});

mutationField('errorTrackingSettingsUpdate', {
  description: 'Turns error tracking on or off. For maintainers.',
  input: (t) => ({ projectPath: t.id({ required: true }), enabled: t.boolean(), integrated: t.boolean() }),
  payload: { errorTracking: ErrorTrackingRef },
  run: async (ctx, { projectPath, enabled, integrated }) => {
    const project = await getProject(ctx, { path: projectPath });
    const settings = await updateSettings(ctx, project, {
      active: enabled ?? undefined,
      integrated: integrated ?? undefined,
    });
    return { errorTracking: { project, ...settings } };
  },
});

mutationField('errorTrackingNotificationsSet', {
  description: 'Turns mails about new, regressed and resolved errors on or off for the caller. For Reporters.',
  input: (t) => ({ projectPath: t.id({ required: true }), enabled: t.boolean({ required: true }) }),
  payload: { errorTracking: ErrorTrackingRef },
  run: async (ctx, { projectPath, enabled }) => {
    const project = await getProject(ctx, { path: projectPath });
    await setErrorNotifications(ctx, project, enabled);
    return { errorTracking: { project, ...(await readSettings(ctx, project.id)) } };
  },
});
